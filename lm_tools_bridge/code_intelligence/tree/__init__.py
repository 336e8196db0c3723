"""Looks at the files of a project on disk, notices which changed, and holds those that servers have open."""
