"""The terminal agent: a model in a terminal that uses a project's tools, as a client of the manager."""
