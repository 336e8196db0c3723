"""Folders, containers and processes that stand for other hosts."""
