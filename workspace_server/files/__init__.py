"""Looks at files on disk: change detection, file identity, single flight."""
