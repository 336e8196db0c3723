"""Script tools: a folder with a `tool.toml` and a program is a tool.

Read with every request, so that a change counts from the next one on; only bytes that were looked at run.
"""
