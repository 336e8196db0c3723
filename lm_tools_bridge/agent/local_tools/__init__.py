"""The agent's own tools, `os_assistant_…`: what the machine does, and shell commands, also with sudo."""
