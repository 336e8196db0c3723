"""Servers of others as sources of tools: where requests leave this server."""
