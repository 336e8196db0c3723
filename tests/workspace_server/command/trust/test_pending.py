"""What waits for trust, told without starting even the login shell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.projects.command_home import Home


def _pending(home: Home) -> list[str]:
    answer = home.json("pending", home.root)
    assert answer["command"] == f"lmtb trust {home.root}"
    found: list[str] = answer["pending"]
    return found


def test_only_what_waits_is_named(home: Home) -> None:
    home.script("greet")
    home.servers(gh={"command": "serve-gh"}, lin={"type": "http", "url": "https://mcp.example/mcp"})
    assert _pending(home) == ["greet", "gh", "lin"]
    home.run("trust", home.root, "--yes")
    assert _pending(home) == []
    home.script("greet", "print(2)\n")
    assert _pending(home) == ["greet"]


def test_a_program_that_only_the_login_shell_finds_counts_as_unchanged(home: Home) -> None:
    home.servers(gh={"command": "serve-gh", "args": ["one"]})
    home.run("trust", home.root, "--yes")
    elsewhere = replace(home, options=("--path", "/nowhere"))
    assert _pending(elsewhere) == []
    home.servers(gh={"command": "serve-gh", "args": ["two"]})
    assert _pending(elsewhere) == ["gh"]


def test_everything_waits_in_a_folder_that_replaced_the_trusted_one(home: Home) -> None:
    home.servers(gh={"command": "serve-gh"})
    home.run("trust", home.root, "--yes")
    home.root.rename(home.root.with_name("old"))
    home.root.mkdir()
    home.servers(gh={"command": "serve-gh"})
    assert _pending(home) == ["gh"]


def test_the_login_shell_is_not_started(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell = home.program("shell")
    shell.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    monkeypatch.setenv("SHELL", str(shell))
    home.servers(gh={"command": "serve-gh"})
    assert _pending(home) == ["gh"]
    assert not (tmp_path / "started").exists()
    home.run("trust", home.root, "--yes")
    assert (tmp_path / "started").exists()
