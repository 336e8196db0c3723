"""Measures what the manager costs: the command `scripts/bench`, a folder for each group of its sections."""
