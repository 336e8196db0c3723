"""Adds MCP servers that others publish, at a pinned version, and finds those that have newer ones."""
