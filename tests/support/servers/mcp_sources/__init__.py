"""What sources of tools talk to: stdio and remote MCP servers, OAuth, transports, published servers."""
