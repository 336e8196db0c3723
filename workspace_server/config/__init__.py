"""Reads, merges and edits the configuration of the user and of the workspace."""
