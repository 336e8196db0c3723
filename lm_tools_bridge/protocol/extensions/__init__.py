"""The MCP extensions that are spoken here: skills (SEP-2640) and tasks (SEP-2663)."""
