"""Finds files and text in a workspace.

`patterns`, `ignore` and `tree` decide which files count; `ripgrep` and `fallback` are the two engines;
`engine` is the entry point.
"""
