"""Where requests arrive: the door, the MCP routes, the control plane, status."""
