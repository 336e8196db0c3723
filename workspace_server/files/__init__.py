"""Detects changes of files on disk, and shares reads between callers."""
