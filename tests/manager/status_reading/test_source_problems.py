"""Problems of sources as the command line tells them."""

from __future__ import annotations

from typing import Any

import pytest

from manager.cli.output.overview import problems
from manager.status_reading.source_problems import shell_hint

SOURCE = {"id": "stdio:s", "state": "backoff", "lacking": ["SERVICE_TOKEN", "OTHER_TOKEN"]}


def test_a_variable_that_only_the_shell_has_comes_with_the_lines_to_add() -> None:
    assert shell_hint(SOURCE, {"SERVICE_TOKEN": "canary"}) == (
        "stdio:s asked for SERVICE_TOKEN, which this shell has and the manager has not: "
        'add "export SERVICE_TOKEN=…" to ~/.profile, run lmtb stop, '
        'and add to its entry: env = { SERVICE_TOKEN = "${SERVICE_TOKEN}" }'
    )


@pytest.mark.parametrize(
    ("source", "shell"),
    [
        (SOURCE, {"HOME": "/"}),
        ({**SOURCE, "state": "ready"}, {"SERVICE_TOKEN": "x"}),
        ({**SOURCE, "lacking": []}, {"SERVICE_TOKEN": "x"}),
        ({"id": "builtin", "state": "failed"}, {"SERVICE_TOKEN": "x"}),
    ],
)
def test_otherwise_nothing_is_said(source: dict[str, object], shell: dict[str, str]) -> None:
    assert shell_hint(source, shell) is None


ALL = {"file": ".mcp.json", "names": [], "allBut": True}
OWN = {
    "claude-code": ALL,
    "codex": {**ALL, "file": ".codex/config.toml"},
    "my-agent": {"file": ".mcp.json", "names": ["docs"], "allBut": False},
    "careful": {"file": ".mcp.json", "names": ["docs"], "allBut": True},
}


def status(client: str, workspace: str, file: str | None) -> dict[str, Any]:
    sources = [{"id": "stdio:docs", "namespace": "docs", "state": "ready", "file": file}]
    return {
        "clientDetails": [
            {"name": client, "workspace": workspace, "ownServers": [OWN[client]]},
            {"name": None},
        ],
        "instanceDetails": [{"workspace": "p-1", "root": "/p", "state": "ready", "sources": sources}],
    }


def test_a_client_that_was_seen_and_starts_a_server_itself_is_a_problem() -> None:
    assert problems(status("claude-code", "p-1", ".mcp.json")) == [
        "p-1: Claude Code starts docs of .mcp.json itself, so they run twice; move them with: lmtb adopt"
    ]


def test_a_client_whose_files_the_user_named_is_a_problem_as_well() -> None:
    (problem,) = problems(status("my-agent", "p-1", ".mcp.json"))
    assert problem.startswith("p-1: my-agent starts docs of .mcp.json itself")


@pytest.mark.parametrize(
    ("client", "workspace", "file"),
    [
        ("claude-code", "q-2", ".mcp.json"),
        ("claude-code", "p-1", None),
        ("codex", "p-1", ".mcp.json"),
        ("careful", "p-1", ".mcp.json"),
    ],
    ids=["seen elsewhere", "our own file", "a file of another client", "refused by its user"],
)
def test_other_servers_run_once(client: str, workspace: str, file: str | None) -> None:
    assert problems(status(client, workspace, file)) == []
