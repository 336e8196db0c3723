"""Verbs about the workspace of the current folder: its trust, its tools, its servers, its secrets."""
