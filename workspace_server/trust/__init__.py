"""Decides which content of a workspace may run: only what the user trusted, byte for byte."""
