"""Sections about starts: installation, manager, workspace servers and agent, each until the first answer."""
