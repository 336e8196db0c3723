"""Reads and writes the private files of one user, and looks at folders of projects."""
