"""A workspace server: gathers the tools of one project and serves them to the manager, statelessly."""
