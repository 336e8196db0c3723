"""Runs the servers and checkers of a project: picks them, starts each once, replaces those that fail."""
