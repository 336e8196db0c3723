"""Adds this MCP server to the configuration files of coding agents, and takes it out again.

Pure functions on text decide what is written (`change.py`); `workbench.py` reads and writes the files.
"""
