"""Serves Agent Skills: folders with a `SKILL.md`, of the project and of the user, as MCP resources."""
