"""Tunes the Python runtime of the manager: lazy imports, garbage collector, malloc."""
