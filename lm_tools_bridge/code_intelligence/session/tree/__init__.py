"""Looks at the files of a project on disk, and notices which of them changed."""
