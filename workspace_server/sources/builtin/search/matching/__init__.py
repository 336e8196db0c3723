"""Finds text in files: with ripgrep, or in Python alone, in batches and processes that can be ended."""
