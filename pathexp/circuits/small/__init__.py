"""What small models are made of: bigram tables, skip-trigrams, virtual heads."""
