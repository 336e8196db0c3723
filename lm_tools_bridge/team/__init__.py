"""A team's registry of workspaces and MCP servers on NATS, and calls between the managers of its members."""
