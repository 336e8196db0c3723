"""Verbs that start, stop and replace the manager."""
