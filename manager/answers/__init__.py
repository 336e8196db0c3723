"""What the manager answers itself, in either era: handshake, callTool, merged lists, its own resources."""
