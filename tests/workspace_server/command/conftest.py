"""A user's folders, and a person at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.command_home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A workspace without anything in it, and a folder of programs on the PATH."""
    found = Home(tmp_path / "ws", tmp_path / "config", tmp_path / "state", tmp_path / "bin")
    found.root.mkdir()
    found.bin.mkdir()
    found.program("serve-gh")  # a name that no machine has
    monkeypatch.setenv("PATH", f"{found.bin}:/usr/bin:/bin")
    monkeypatch.setenv("SHELL", str(tmp_path / "none"))  # what the machine's shell would say is no matter
    monkeypatch.setenv("NO_COLOR", "1")
    return found
