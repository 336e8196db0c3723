"""What `/mcp/status`, `/mcp/health` and `/mcp/log` show."""
