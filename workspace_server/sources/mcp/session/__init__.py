"""One MCP session with another server: transport, JSON-RPC, handshake, notifications."""
