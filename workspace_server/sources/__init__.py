"""The sources of tools: built-in tools, scripts, and other MCP servers."""
