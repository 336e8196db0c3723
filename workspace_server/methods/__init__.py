"""The MCP methods that a workspace server answers."""
