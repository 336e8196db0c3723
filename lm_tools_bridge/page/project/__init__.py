"""A project's own page: its tools, sources and issues, and what waits for trust."""
