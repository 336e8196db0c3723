"""Runs the language servers of a workspace, one of a kind for all clients, and offers tools built on them."""
