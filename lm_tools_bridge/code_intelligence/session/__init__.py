"""Runs language servers: starts them, tells them what changed in the project, replaces those that fail."""
