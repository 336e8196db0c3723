"""What of a workspace's own content may run: only what the user has seen and allowed, byte for byte."""
