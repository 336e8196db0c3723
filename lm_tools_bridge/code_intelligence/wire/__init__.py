"""Speaks LSP: framing, the JSON-RPC connection to a server, positions, file URIs and edits."""
