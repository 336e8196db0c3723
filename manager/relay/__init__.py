"""Relays responses of workspace servers to clients: JSON, event streams and large bodies."""
