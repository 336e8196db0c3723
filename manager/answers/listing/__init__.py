"""Lists of tools, prompts and resources: the manager's own entries, merged with those of the workspace."""
