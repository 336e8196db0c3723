"""Decides which workspace a request belongs to. Pure."""
