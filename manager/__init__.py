"""The manager: one daemon on one fixed address that routes every request to its workspace's own server."""

__version__ = "0.1.0"
