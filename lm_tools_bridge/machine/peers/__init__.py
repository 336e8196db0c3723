"""Finds out who is at the other end of a connection, and whether it may act for the user."""
