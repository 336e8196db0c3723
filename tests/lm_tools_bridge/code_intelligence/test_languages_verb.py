"""What a person sees of each language server."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.languages_verb import OFTEN, lines_below, row_of

SERVER = {
    "server": "clangd",
    "languages": ["c", "cpp"],
    "roles": ["symbols"],
    "oneShot": False,
    "state": "installed",
    "program": "/usr/bin/clangd",
    "version": "22.1",
    "reason": None,
}


def state_and_detail(running: dict[str, Any] | None) -> tuple[object, object]:
    """The cells STATE and PROGRAM."""
    cells = row_of({**SERVER, "running": running})
    return cells[2], cells[6]


@pytest.mark.parametrize("running", [None, {"state": "ready", "memoryMiB": 7.0}, {"state": "idle"}])
def test_a_server_that_works_is_installed(running: dict[str, Any] | None) -> None:
    assert state_and_detail(running) == ("installed", "/usr/bin/clangd")


@pytest.mark.parametrize(("state", "label"), [("backoff", "retrying"), ("crash_looping", "crashing")])
def test_a_server_that_ended_is_not_called_installed(state: str, label: str) -> None:
    running = {"state": state, "error": "clangd ended with signal 11"}
    assert state_and_detail(running) == (label, "clangd ended with signal 11")


def test_a_server_that_ends_again_and_again_is_not_called_installed_while_the_next_one_runs() -> None:
    running = {"state": "ready", "restarts": OFTEN, "error": "clangd ended with signal 11"}
    state, detail = state_and_detail(running)
    assert state == "degraded"
    assert detail == f"ended {OFTEN} times, the last time because clangd ended with signal 11"


def test_a_server_that_ended_once_is_installed() -> None:
    running = {"state": "ready", "restarts": 1, "error": "clangd ended with signal 11"}
    assert state_and_detail(running)[0] == "installed"


def test_a_version_that_only_the_running_server_tells_is_shown() -> None:
    assert row_of({**SERVER, "version": None, "running": {"version": "1.2"}})[4] == "1.2"


def test_environment_project_files_and_the_last_end_stand_below_the_table() -> None:
    ended = {"state": "ready", "restarts": 1, "error": "clangd ended with signal 11", "errorAgeS": 300}
    server = {**SERVER, "running": ended, "projectFiles": ["CMakeLists.txt"], "moreProjectFiles": 2}
    environment = {"path": "/p/.venv", "namedBy": ".venv"}
    assert list(lines_below({"pythonEnvironment": environment}, [server])) == [
        "Environment of Python: /p/.venv (.venv)",
        "Project files for clangd: CMakeLists.txt and 2 more",
        "Last end of clangd 5 min ago: clangd ended with signal 11",
    ]
    assert list(lines_below({"pythonEnvironment": None}, [])) == ["Environment of Python: none"]
    assert list(lines_below({}, [SERVER])) == []
