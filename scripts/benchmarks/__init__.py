"""Measures what the manager costs: one module for each section; `__main__` is the command `scripts/bench`."""
