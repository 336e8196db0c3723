"""The manager's own tools and the discovery part of a handshake result. Pure."""
