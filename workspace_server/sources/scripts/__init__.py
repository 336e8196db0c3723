"""Script tools: every folder with a `tool.toml` and a program is a tool.

Folders are checked with every request, so a change takes effect with the next one. Only bytes that were
checked for trust run.
"""
