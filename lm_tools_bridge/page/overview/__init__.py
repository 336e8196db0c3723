"""The first page: what needs a person, the manager and its health, projects, calls and clients."""
