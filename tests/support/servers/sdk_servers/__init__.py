"""MCP servers on the official SDK with every kind of content, how they are started, and what they ask."""
