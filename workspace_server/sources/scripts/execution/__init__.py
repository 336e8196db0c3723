"""Runs a script tool: private files, confinement, process and result."""
