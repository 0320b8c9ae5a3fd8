"""Circuits: one question a file, answered from weights, graphs and runs."""
