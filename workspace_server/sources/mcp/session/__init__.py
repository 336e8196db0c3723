"""One MCP session with another server: handshake, JSON-RPC, notifications, and requests of the server.

Thirteen modules: `session.py` is the interface, `rpc.py` the connection below it; each of the others serves
one of these two.
"""
