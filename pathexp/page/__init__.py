"""The page: one more renderer of answers. It is served on this machine, or written as one file."""
