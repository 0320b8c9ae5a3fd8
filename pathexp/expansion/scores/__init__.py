"""Attention scores as sums over pairs of paths, one into the query and one into the key."""
