"""The MCP endpoint in both eras: POST, GET and DELETE, with and without sessions."""
