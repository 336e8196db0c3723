"""Remote MCP servers: over HTTP, at addresses that somebody may have meant badly."""
