"""The workspace server's command, run for the page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from manager.admin.control import project_command as command
from manager.admin.control.project_command import ServerCommand
from support.processes.managers.manager_in_process import make_project, manager_paths


@pytest.fixture
def runner(tmp_path: Path) -> ServerCommand:
    return ServerCommand(manager_paths(tmp_path / "user"), lambda: None)


async def test_differences_are_those_of_the_verb(runner: ServerCommand, tmp_path: Path) -> None:
    project = make_project(tmp_path / "shop", **{".mcp.json": '{"mcpServers": {"db": {"command": "false"}}}'})
    found = await runner.differences(str(project))
    assert not isinstance(found, str)
    assert [one["kind"] for one in found["changes"]] == ["added"]


async def test_a_failure_is_told_with_its_next_step(runner: ServerCommand, tmp_path: Path) -> None:
    found = await runner.differences(str(tmp_path / "gone"))
    assert isinstance(found, str)
    assert "is not a folder; name the folder of a project" in found


async def test_names_are_never_options(runner: ServerCommand, tmp_path: Path) -> None:
    found = await runner.change_tool(str(tmp_path), "--help", "deny")
    assert not isinstance(found, str)
    assert found["tool"] == "--help"


async def test_an_impossible_argument_is_told(runner: ServerCommand) -> None:
    assert "could not be run" in str(await runner.differences("/a\0b"))


async def test_a_command_that_takes_too_long_is_ended(
    runner: ServerCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LIMIT_S", 0.05)
    assert "longer than 0.05 s" in str(await runner.differences(str(tmp_path)))
    monkeypatch.undo()
    answers = await asyncio.gather(*(runner.differences(str(tmp_path)) for _ in range(2)))
    assert not any(isinstance(one, str) for one in answers)
