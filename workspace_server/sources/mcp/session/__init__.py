"""One MCP session with another server: handshake, notifications, and the requests of both sides.

`session.py` is the interface, `mcp/rpc/connection.py` the connection below it; each other module serves one
of these two.
"""
