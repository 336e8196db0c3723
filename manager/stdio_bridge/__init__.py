"""Runs `lmtb connect`: a stdio MCP server that forwards every message to the manager.

It serves clients that can only start programs. To the manager it is an ordinary HTTP client of its own
client's protocol revision: it adds headers, keeps the session, reads streams and reconnects. It forwards
bodies unchanged and decides nothing about workspaces or tools.
"""
