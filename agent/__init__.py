"""The terminal agent: a model in a terminal that uses the tools of the project, as an ordinary client of the manager."""
