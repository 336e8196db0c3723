"""An answer of a language tool says which errors came since the client's last one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.source import LanguageServerSource
from lm_tools_bridge.code_intelligence.tools.new_errors import MAX_LINES
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import (
    InMemoryServer,
    InMemoryServers,
    at,
    diagnostic,
    no_environment,
)
from support.servers.language_servers.python_symbols import python_server
from workspace_server.call_context import CallContext
from workspace_server.tool import ToolResult
from workspace_server.workspace import Workspace

A, B = CallContext(caller="a"), CallContext(caller="b")


class Project:
    """A project with a server that checks it, as two clients use it."""

    def __init__(self, folder: Path, *, knows_whole: bool = True, tells: bool = True) -> None:
        self.root = write_tree(folder / "proj", {"a.py": "def old():\n    pass\n", "b.py": "old()\n"})
        self.server = python_server(self.root)
        self.server.knows_whole = knows_whole
        if knows_whole:
            self.server.answers["workspace/diagnostic"] = lambda _: {}
        self.source = LanguageServerSource(
            Workspace.of(self.root), InMemoryServers([self.server]), no_environment, tells_new_errors=tells
        )

    def write(self, name: str, *messages: str, severity: int = 1) -> None:
        """Write a file, which has these errors then."""
        path = self.root / name
        path.write_text(path.read_text() + "x\n" * (1 + len(messages)))
        self.server.found[path] = [
            diagnostic(message, at(number, 0), severity) for number, message in enumerate(messages)
        ]
        self.server.changed.append(path)

    async def ask(self, client: CallContext = A, **arguments: Any) -> ToolResult:
        """An answer; any language tool will do."""
        name = "lm_getDiagnostics" if arguments else "lm_fileOutline"
        result = await self.source.call_tool(name, arguments or {"filePath": "a.py"}, client)
        assert isinstance(result, ToolResult)
        return result

    async def news(self, client: CallContext = A) -> list[str]:
        """The section of an answer."""
        result = await self.ask(client)
        _, _, section = result.text.partition("\n---\nnew errors")
        assert bool(section) == ("newErrors" in result.structured)
        return list(result.structured.get("newErrors", {"lines": []})["lines"])

    async def settle(self) -> None:
        """Let the check that is under way end."""
        watch = self.source._new_errors
        assert watch is not None
        assert watch._checking is not None
        await watch._checking


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(Path(os.path.realpath(tmp_path)))


async def test_errors_that_were_there_are_not_told_and_new_ones_once_to_each_client(project: Project) -> None:
    project.write("a.py", "was there")
    assert await project.news(A) == []
    await project.settle()
    assert await project.news(B) == []
    project.write("b.py", "no such name")
    section = ["new errors since your last answer: 1", "proj/b.py", "[error] 1:1-1:2 no such name"]
    assert await project.news(A) == section
    assert await project.news(B) == section
    assert await project.news(A) == await project.news(B) == []


async def test_warnings_are_not_told(project: Project) -> None:
    await project.ask()
    await project.settle()
    project.write("b.py", "unused", severity=2)
    assert await project.news() == []


async def test_nothing_is_asked_while_nothing_changes(project: Project) -> None:
    await project.ask()
    await project.settle()
    project.write("b.py", "no such name")
    await project.news()
    asked = len(project.server.diagnosed)
    for _ in range(3):
        await project.news()
    assert len(project.server.diagnosed) == asked == 2


async def test_the_section_has_few_lines_and_says_how_many_errors_are_left_out(project: Project) -> None:
    await project.ask()
    await project.settle()
    project.write("b.py", *(f"error {number}" for number in range(50)))
    section = await project.news()
    assert len(section) == MAX_LINES
    assert section[-1] == "… and 33 more: see lm_getDiagnostics"
    assert section[-2] == "[error] 17:1-17:2 error 16"


async def test_a_check_that_is_late_is_told_with_the_next_answer(project: Project) -> None:
    await project.ask()
    await project.settle()
    project.server.state = Freshness("py", "stale", "it has not taken in 1 change on disk yet")
    project.write("b.py", "no such name")
    assert await project.news() == []
    project.server.state = None
    assert "[error] 1:1-1:2 no such name" in await project.news()


async def test_errors_of_a_file_that_was_not_checked_before_are_told_as_such(tmp_path: Path) -> None:
    project = Project(Path(os.path.realpath(tmp_path)), knows_whole=False)
    await project.ask()
    await project.settle()
    project.write("b.py", "perhaps old")
    result = await project.ask()
    head, file, line = result.structured["newErrors"]["lines"]
    assert head == "errors in files changed since your last answer, which may have had them before: 1"
    assert (file, line) == ("proj/b.py", "[error] 1:1-1:2 perhaps old")
    project.write("b.py", "perhaps old", "surely new")
    assert await project.news() == [
        "new errors since your last answer: 1",
        "proj/b.py",
        "[error] 2:1-2:2 surely new",
    ]


async def test_what_diagnostics_show_themselves_is_not_told_twice(project: Project) -> None:
    await project.ask()
    await project.settle()
    project.write("a.py", "in the file asked for")
    project.write("b.py", "in another file")
    result = await project.ask(filePath="a.py")
    assert result.structured["newErrors"]["lines"][1:] == ["proj/b.py", "[error] 1:1-1:2 in another file"]
    project.write("b.py", "in another file", "and one more")
    assert "newErrors" not in (await project.ask(severities=["error"])).structured
    assert await project.news() == []


async def test_clients_that_cannot_be_told_apart_are_told_nothing(project: Project) -> None:
    for _ in range(2):
        assert "newErrors" not in (await project.ask(CallContext())).structured
    assert project.server.diagnosed == []


async def test_nothing_is_checked_where_the_user_switched_it_off(tmp_path: Path) -> None:
    project = Project(Path(os.path.realpath(tmp_path)), tells=False)
    for _ in range(2):
        assert await project.news() == []
        project.write("b.py", "no such name")
    assert project.server.diagnosed == []


async def test_a_check_that_fails_leaves_the_answer(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    await project.ask()
    await project.settle()

    async def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(InMemoryServer, "diagnostics", fail)
    project.write("b.py", "no such name")
    assert await project.news() == []
