"""Where no server can answer about uses yet, the lines with the word are listed as possible uses, never as none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut, ServerGone, Unavailable
from lm_tools_bridge.code_intelligence.tools import references
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    InMemoryServers,
    kind,
    no_environment,
    workplace_of,
)
from support.servers.language_servers.python_symbols import python_server
from workspace_server.tool import ToolError
from workspace_server.workspace import Workspace

FILES = {
    "src/a.py": "def old():\n    pass\n",
    "src/b.py": "from a import old\nold()  # old\n# old is nothing here\n",
    "README.md": "old\n",
}
LINES = [("proj/src/a.py", 1), ("proj/src/b.py", 1), ("proj/src/b.py", 2)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", FILES)


def raising(failure: Exception) -> Callable[[Any], Any]:
    """An answer that is none."""

    def answer(_: Any) -> Any:
        raise failure

    return answer


async def ask(workplace: Workplace, **arguments: Any) -> dict[str, Any]:
    asked = {"symbol": "old", "waitS": 0, **arguments}
    result = await references.call("lm_references", workplace, asked, CONTEXT)
    assert isinstance(result.structured, dict)
    return {**result.structured, "text": result.text}


def possible_lines(answer: dict[str, Any]) -> list[tuple[str, int]]:
    return sorted((use["workspacePath"], use["line"]) for use in answer["possible"])


@pytest.mark.parametrize("failure", [RequestTimedOut("no answer within 30 s"), RequestFailed(-32800, "busy")])
async def test_lines_are_listed_where_a_server_does_not_answer_about_uses(
    root: Path, failure: Exception
) -> None:
    server = python_server(root)
    server.answers["textDocument/references"] = raising(failure)
    answer = await ask(workplace_of(root, server))
    assert possible_lines(answer) == LINES
    assert answer["total"] == 0
    (freshness,) = answer["freshness"]
    assert freshness["state"] == "partial"
    assert str(failure) in freshness["reason"]
    assert "3 more lines in 2 files have the word old" in freshness["reason"]
    assert "possible: 3 more lines in 2 files" in answer["text"]


@pytest.mark.parametrize("address", [{}, {"filePath": "src/a.py"}])
async def test_lines_are_listed_where_no_server_answers_about_names(
    root: Path, address: dict[str, Any]
) -> None:
    server = python_server(root)
    server.fault = RequestTimedOut("no answer within 30 s")
    answer = await ask(workplace_of(root, server), **address)
    assert possible_lines(answer) == LINES
    assert answer["freshness"][0]["state"] == "partial"
    assert answer["freshness"][0]["reason"].startswith("no answer within 30 s; 3 more lines in 2 files")


@pytest.mark.parametrize("state", ["starting", "failed"])
async def test_lines_are_listed_while_a_server_does_not_run_yet(root: Path, state: Any) -> None:
    absent = Unavailable(kind("py", ".py"), state, "py is still starting; ask again")
    workplace = Workplace(Workspace.of(root), InMemoryServers((), [absent]), 0.0, no_environment)
    answer = await ask(workplace)
    assert possible_lines(answer) == LINES
    assert answer["freshness"][0]["reason"].startswith("py is still starting; ask again")


async def test_lines_are_listed_where_a_server_that_still_reads_the_project_knows_no_such_name(
    root: Path,
) -> None:
    server = python_server(root)
    server.state = Freshness("py", "indexing", "it still reads the project")
    for method in ("textDocument/documentSymbol", "workspace/symbol", "textDocument/definition"):
        server.answers[method] = lambda _: []
    assert possible_lines(await ask(workplace_of(root, server))) == LINES


@pytest.mark.parametrize("state", ["missing", "untrusted"])
async def test_what_a_person_has_to_do_first_is_told_instead_of_lines(root: Path, state: Any) -> None:
    absent = Unavailable(kind("py", ".py"), state, "run lmtb trust")
    workplace = Workplace(Workspace.of(root), InMemoryServers((), [absent]), 0.0, no_environment)
    with pytest.raises(ToolError, match="run lmtb trust"):
        await ask(workplace)


async def test_a_name_that_no_code_has_stays_unknown(root: Path) -> None:
    server = python_server(root)
    server.fault = RequestTimedOut("no answer within 30 s")
    with pytest.raises(ToolError, match="nobody answered"):
        await ask(workplace_of(root, server), symbol="nowhere")


async def test_a_server_that_ended_is_asked_a_second_time(root: Path) -> None:
    server = InMemoryServer(kind("py", ".py"), python_server(root).answers, fault=ServerGone("py ended"))
    answer = await ask(workplace_of(root, server))
    assert answer["freshness"][0]["state"] == "crashed"
    assert possible_lines(answer) == LINES


async def test_lines_are_not_listed_where_the_user_switched_them_off(root: Path) -> None:
    server = python_server(root)
    server.fault = RequestTimedOut("no answer within 30 s")
    workplace = Workplace(
        Workspace.of(root), InMemoryServers([server]), 0.0, no_environment, compares_words=False
    )
    with pytest.raises(ToolError, match="nobody answered"):
        await ask(workplace)
