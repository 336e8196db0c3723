"""What another MCP server lists: tools, prompts, resources, and how the lists are kept."""
