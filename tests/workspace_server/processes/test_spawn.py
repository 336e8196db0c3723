"""Commands are started on Windows by the path of their program, and never with arguments that cmd.exe executes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workspace_server.processes import spawn as module
from workspace_server.processes.spawn import ChildStartError, Command, Spawned, spawn


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What would be started on Windows, where `npx` is a batch file and `node` a program."""
    places = {"npx": "C:\\node\\npx.CMD", "node": "C:\\node\\node.EXE"}
    commands: list[tuple[str, ...]] = []

    def note(command: Command, *_: object) -> None:
        commands.append(command.argv)
        raise OSError

    monkeypatch.setattr(module, "IS_WINDOWS", True)
    monkeypatch.setattr(module, "find_program", lambda name, _environ: places.get(name))
    monkeypatch.setattr(module, "_popen", note)
    return commands


def start(folder: Path, *argv: str) -> Spawned:
    return spawn(Command(argv, dict(os.environ), str(folder)), "mark", stdin=False)


@pytest.mark.parametrize("argv", [("npx", "-y", "server"), ("node", '"&echo hacked', "%OS%")])
def test_a_program_is_started_by_its_path(
    started: list[tuple[str, ...]], tmp_path: Path, argv: tuple[str, ...]
) -> None:
    with pytest.raises(ChildStartError):
        start(tmp_path, *argv)
    assert started[0][0].startswith("C:\\node\\")
    assert started[0][1:] == argv[1:]


def test_a_batch_file_gets_no_argument_that_is_a_command(
    started: list[tuple[str, ...]], tmp_path: Path
) -> None:
    with pytest.raises(
        ChildStartError, match='cannot start "npx": argument 1 has one of the characters'
    ) as error:
        start(tmp_path, "npx", '"&echo hacked')
    assert "hacked" not in str(error.value)
    assert started == []


def test_a_program_that_is_not_on_the_path_is_not_looked_for_in_the_project(
    started: list[tuple[str, ...]], tmp_path: Path
) -> None:
    with pytest.raises(ChildStartError, match="not on the PATH"):
        start(tmp_path, "evil")
    assert started == []
