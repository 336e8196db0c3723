"""Saves the history of each session in a private file, so that it can be resumed."""
