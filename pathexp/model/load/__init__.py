"""Files of other programs to models: one format a file, transposed here and nowhere else."""
