"""Servers that are configured and not in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workspace_server.config.model import EntryOrigin, RemoteServer
from workspace_server.sources.inactive import InactiveSource


@pytest.mark.parametrize(
    ("state", "why"),
    [("disabled", "is disabled"), ("pending_trust", "your trust"), ("failed", "may not start")],
)
async def test_a_restart_starts_nothing_and_says_why(state: Any, why: str) -> None:
    entry = RemoteServer("away", "http://h/mcp", EntryOrigin(Path("mcp.toml"), "user"))
    done = await InactiveSource(entry, state, root="/project", error="no").restart()
    assert why in done
    assert done.endswith("so nothing was started")
