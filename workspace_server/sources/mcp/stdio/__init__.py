"""Stdio MCP servers: programs that are started here and speak over their standard input and output."""
