"""Many prompts: cases, averages of answers over them, circuits and how faithful they are, on one machine or many."""
