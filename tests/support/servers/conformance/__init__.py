"""MCP servers for the scenarios of the official conformance suite."""
