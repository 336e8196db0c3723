"""Verbs about projects on other hosts."""

from __future__ import annotations

from typing import Any

import pytest

from manager.cli.workspace import remote_project


@pytest.mark.parametrize("words", [("trust",), ("untrust",)])
def test_an_installation_that_reaches_no_hosts_says_so(
    run: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(remote_project, "FEATURES", ())
    refused = run(*words, "ssh://box/srv/p")
    assert refused.exit_code != 0
    assert "box/srv/p is on another host, and this installation reaches none" in refused.stderr
