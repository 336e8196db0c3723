"""What an agent's hook is told after an edit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence import edit_hook
from lm_tools_bridge.code_intelligence.edit_hook import (
    MAX_LINES,
    answer,
    edited_file,
    error_lines,
    read_event,
)
from support.processes.managers.manager_process import running_manager
from support.projects.file_tree import write_tree
from support.servers.language_servers.python_language_server import WRONG, put_on_path

EVENT = {
    "session_id": "s1",
    "cwd": "/p",
    "hook_event_name": "PostToolUse",
    "tool_name": "Write",
    "tool_input": {"file_path": "/p/src/a.py", "content": "x"},
}
RESULT = {
    "structuredContent": {
        "files": [
            {
                "workspacePath": "p/src/a.py",
                "diagnostics": [
                    {"startLine": 3, "startCharacter": 5, "message": "no such name", "code": "E1"},
                    {"startLine": 9, "startCharacter": 1, "message": "wrong type", "code": None},
                ],
            }
        ],
        "newErrors": {"total": 1, "lines": ["new errors since your last answer: 1", "p/b.py", "[error] x"]},
    }
}


@pytest.mark.parametrize(
    ("members", "file"),
    [
        ({}, "/p/src/a.py"),
        ({"tool_input": {"notebook_path": "/p/n.ipynb"}}, "/p/n.ipynb"),
        ({"tool_input": {"file_path": "src/../b.py"}}, "/p/b.py"),
        ({"tool_input": {"file_path": "b.py"}, "cwd": None}, None),
        ({"tool_input": {"file_path": "/p/\0"}}, None),
        ({"tool_input": {"command": "ls"}}, None),
        ({"tool_input": None}, None),
        ({"tool_input": {"file_path": 7}}, None),
    ],
)
def test_the_file_is_that_of_the_event(members: dict[str, Any], file: str | None) -> None:
    assert edited_file({**EVENT, **members}) == (None if file is None else Path(file))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_what_is_no_event_is_ignored(data: bytes) -> None:
    assert read_event(data) == {}


def test_an_event_that_is_too_large_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.dumps(EVENT).encode()
    assert read_event(data) == EVENT
    monkeypatch.setattr(edit_hook, "MAX_EVENT", len(data) - 1)
    assert read_event(data) == {}


def test_errors_of_the_file_come_first_then_new_ones_elsewhere() -> None:
    assert list(error_lines(RESULT)) == [
        "p/src/a.py:3:5: no such name [E1]",
        "p/src/a.py:9:1: wrong type",
        "new errors since your last answer: 1",
        "p/b.py",
        "[error] x",
    ]


@pytest.mark.parametrize(
    "result",
    [
        {},
        {**RESULT, "isError": True},
        {"structuredContent": {"files": []}},
        {"structuredContent": {"files": 7}},
    ],
)
def test_without_errors_nothing_is_said(result: dict[str, Any]) -> None:
    assert list(error_lines(result)) == []


def test_the_answer_is_context_for_the_model_and_has_few_lines() -> None:
    said = answer(EVENT, [f"line {number}" for number in range(50)])
    output = said["hookSpecificOutput"]
    assert output["hookEventName"] == "PostToolUse"
    lines = output["additionalContext"].split("\n")
    assert len(lines) == MAX_LINES + 2
    assert lines[-1] == "… and 30 more: see lm_getDiagnostics"


def test_the_verb_prints_nothing_where_no_manager_runs(run: Any, tmp_path: Path) -> None:
    event = {**EVENT, "tool_input": {"file_path": str(tmp_path / "a.py")}}
    for data in (json.dumps(event), "nonsense", ""):
        done = run("hook", "post-edit", input=data)
        assert (done.exit_code, done.output) == (0, "")


def test_the_verb_prints_what_the_agent_reads(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def ask(file: Path) -> Any:
        asked.append(file)
        return RESULT

    monkeypatch.setattr(edit_hook, "_ask", ask)
    done = run("hook", "post-edit", input=json.dumps(EVENT))
    assert asked == [Path("/p/src/a.py")]
    said = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert "p/src/a.py:3:5: no such name [E1]" in said


@pytest.mark.timeout(120)  # starts a manager and four programs
def test_an_agents_hook_is_told_what_it_broke(tmp_path: Path) -> None:
    search = os.pathsep.join([str(put_on_path(tmp_path / "bin")), os.environ["PATH"]])
    with running_manager(tmp_path, env={"PATH": search}) as running:
        root = tmp_path / "projects" / "shop"
        write_tree(root, {".git/config": "", "a.py": "x = 1\n", "notes.txt": ""})

        def told_after_edit(name: str) -> str:
            event = {**EVENT, "cwd": str(root), "tool_input": {"file_path": str(root / name)}}
            done = running.lmtb("hook", "post-edit", input=json.dumps(event))
            assert (done.returncode, done.stderr) == (0, "")
            return done.stdout

        assert told_after_edit("a.py") == told_after_edit("notes.txt") == ""
        (root / "a.py").write_text(f"x = 1\n{WRONG}\n")
        said = json.loads(told_after_edit("a.py"))["hookSpecificOutput"]["additionalContext"]
        assert "shop/a.py:2:" in said
