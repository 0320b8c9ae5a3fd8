"""Questions about weights, graphs and runs: one a file, on shelves."""
