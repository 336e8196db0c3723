"""Reads shell commands: which programs a command line would start, as far as that can be told."""
