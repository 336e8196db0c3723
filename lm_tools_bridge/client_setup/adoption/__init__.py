"""Moves servers from files of clients into a `workspace.toml`, and back: `lmtb adopt`."""
