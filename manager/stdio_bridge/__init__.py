"""The shim `lmtb connect`: an MCP server over standard input and output that passes all on to the manager.

For clients that can only start programs. It is an ordinary client of the manager, in the era that its own
client speaks: what a client has to do over HTTP (headers, sessions, streams, reconnecting) happens here. It
is no second gateway: bodies pass as they are, and nothing is decided about workspaces or tools.
"""
