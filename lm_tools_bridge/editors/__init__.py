"""Windows of VS Code with the extension LM Tools Bridge, as a source of their tools."""
