"""Tests what a shell is told when it completes a word of `lmtb`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from lm_tools_bridge.machine.private_files import make_private
from manager.cli.verbs import cli
from manager.configuration.paths import Paths

INSPECTED: Mapping[str, Any] = {
    "tools": [
        {"name": "git__status", "state": "callable", "description": "Shows changes. All of them."},
        {"name": "git__push", "state": "disabled"},
        {"name": "lm_readFile", "state": "callable"},
    ],
    "sources": [{"id": "stdio:git", "state": "ready"}, {"id": "builtin", "state": "ready"}],
    "issues": [],
}


def completed(*words: str, begun: str = "") -> set[str]:
    """What bash is told for these words and the beginning of the next one."""
    environ = {"COMP_WORDS": " ".join(["lmtb", *words, begun]), "COMP_CWORD": str(len(words) + 1)}
    ended = CliRunner().invoke(
        cli, [], env={**environ, "_LMTB_COMPLETE": "bash_complete"}, complete_var="_LMTB_COMPLETE"
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    return {line.partition(",")[2] for line in ended.stdout.split()}


@pytest.fixture
def manager(control: Any) -> Any:
    """A manager whose server for this folder runs."""
    control.say("POST /resolve", {"ok": True, "match": {"state": "ready", "workspaceFolders": ["/srv"]}})
    control.say("POST /inspect", {"ok": True, **INSPECTED})
    return control


@pytest.mark.usefixtures("manager")
@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        (["call"], "", {"git__status", "lm_readFile"}),
        (["call"], "git", {"git__status"}),
        (["call", "--cwd", "/srv"], "lm_", {"lm_readFile"}),
        (["tools", "deny"], "git", {"git__status", "git__push"}),
        (["tools", "why"], "x", set()),
        (["servers", "restart"], "", {"git", "builtin"}),
        (["log", "--server"], "g", {"git"}),
        (["client", "add"], "cu", {"cursor"}),
        (["client", "remove", "cursor"], "co", {"codex", "continue", "copilot-cli"}),
        (["tools"], "dis", {"disable"}),
        ([], "st", {"stop", "status"}),
        (["stop"], "--ke", {"--keep-servers"}),
    ],
)
def test_names_that_begin_so_are_suggested(words: list[str], begun: str, found: set[str]) -> None:
    assert completed(*words, begun=begun) == found


def test_the_folder_is_that_of_the_line(manager: Any) -> None:
    completed("tools", "--cwd", "/srv/p", "why")
    completed("call", "--cwd", "/srv/q")
    assert [asked["cwd"] for _, asked in manager.asked] == ["/srv/p", "/srv/p", "/srv/q", "/srv/q"]


def test_a_server_that_does_not_run_is_not_asked_which_would_start_it(manager: Any) -> None:
    manager.say("POST /resolve", {"ok": True, "match": {"state": "stopped"}})
    assert completed("call") == set()
    assert [target for target, _ in manager.asked] == ["POST /resolve"]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\n{", ({"ok": True, "match": 7})])
def test_an_answer_of_no_use_is_no_suggestion(control: Any, answer: Any) -> None:
    control.say("POST /resolve", answer)
    assert completed("call") == set()


@pytest.mark.usefixtures("environ")
def test_without_a_manager_there_are_none() -> None:
    assert completed("call") == completed("servers", "restart") == completed("log", "--server") == set()


def test_workspaces_with_a_log_are_suggested(paths: Paths) -> None:
    make_private(paths.logs_dir)
    for name in ("manager", "template", "proj-12", "proj-12.old"):
        (paths.logs_dir / f"{name}.log").touch()
    assert completed("log", "--workspace") == {"proj-12"}


def test_secrets_are_suggested_by_name(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = json.dumps({"ok": True, "keys": ["GITHUB", "NPM"]})
    command = ["/bin/sh", "-c", f"echo '{listed}'"]
    monkeypatch.setattr("manager.cli.workspace_command.command_line", lambda *_: command)
    assert completed("secrets", "delete", begun="G") == {"GITHUB"}
