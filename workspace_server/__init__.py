"""A workspace server: collects the tools of one project and serves them to the manager, without sessions."""
