"""The lists of an MCP server (tools, prompts, resources, templates): read, checked, cached and refreshed."""
