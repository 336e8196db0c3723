"""Calls that begin inside the workspace server: by scripts, by programs, for searches in other sources."""
