"""Finding files and text in a workspace.

`patterns`, `ignore`, `tree` say what is meant; `ripgrep` and `fallback` find it; `engine` is the way in.
"""
