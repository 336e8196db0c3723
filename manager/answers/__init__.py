"""Answers that the manager gives itself: handshake, callTool, merged lists, its own resources."""
