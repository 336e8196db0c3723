"""The two meta-tools: `tool_search` finds tools by words, `execute_tool` calls a tool by its name."""
