"""Workspaces and the life of their servers: start, health, restart, stop."""
