"""Fixtures: a scripted workspace server, and connections to it."""

from support.servers.scripted.scripted_peer import loop_faults, pool_to, serve  # noqa: F401  fixtures
