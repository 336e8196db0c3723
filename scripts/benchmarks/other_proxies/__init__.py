"""The section `peers`: the other MCP proxies, how they are installed, and what their calls cost."""
