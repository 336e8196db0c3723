"""The agent as an MCP client of the manager: one session, its tools, and the questions of servers."""
