"""Tests of what `lmtb trust` says about the servers that it starts, against canned answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from manager.cli.trust import warm_sources


def test_a_server_that_failed_before_the_first_look_is_told(control: Any, tmp_path: Path) -> None:
    failed = {"id": "stdio:x", "state": "failed", "error": 'cannot start "x": No such file or directory'}
    ready = {"id": "builtin", "state": "ready", "lastRefresh": "now"}
    control.say("POST /inspect", {"ok": True, "sources": [failed, ready]})
    said: list[object] = []
    warm_sources(tmp_path, said.append)
    assert said == ['  "stdio:x" cannot be started or reached: cannot start "x": No such file or directory']
