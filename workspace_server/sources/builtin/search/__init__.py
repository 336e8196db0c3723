"""Finds files and text in a workspace.

`files` decides which files count; `matching` finds text in them with one of two engines; `engine` is the
entry point.
"""
