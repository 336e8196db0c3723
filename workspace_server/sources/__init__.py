"""Every origin of tools: built-in tools, scripts, and other MCP servers."""
