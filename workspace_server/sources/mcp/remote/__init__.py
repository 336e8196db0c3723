"""Remote MCP servers over HTTP: addresses, transport, credentials and OAuth.

Fourteen modules: the source with its retry policy, breaker and failures; the transport from addresses up to
the SDK; and authorization, which only servers with credentials load.
"""
