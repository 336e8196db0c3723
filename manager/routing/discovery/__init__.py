"""The manager's own tools and what a handshake tells about a workspace. Pure."""
