"""Other MCP servers as sources: programs on stdio and remote servers over HTTP.

`source.py` is what both have in common; `session_supervisor.py` keeps a session open; `session/`, `lists/`,
`stdio/` and `remote/` are its parts.
"""
