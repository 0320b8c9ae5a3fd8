"""What is averaged over a corpus: its windows, the limits of a long count, running sums, and questions of corpora."""
