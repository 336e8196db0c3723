"""Fixtures of the tests of the upstream client."""

from __future__ import annotations

from support.servers.scripted.scripted_peer import connect, loop_faults, pool_to, serve  # noqa: F401  fixtures
