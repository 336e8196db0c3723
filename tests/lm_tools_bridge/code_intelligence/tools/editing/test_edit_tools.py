"""lm_renameSymbol and lm_codeAction: shown as a diff, applied whole, refused where they could do harm."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.tools.editing import code_action, rename_symbol
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    at,
    diagnostic,
    kind,
    workplace_of,
)
from support.servers.language_servers.python_symbols import python_server
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

DIFF = """\
--- a/proj/a.py
+++ b/proj/a.py
@@ -1,3 +1,3 @@
-def old():
+def new():
     pass
 """


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"a.py": "def old():\n    pass\n", "b.py": "from a import old\nold()\n"}
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)


@pytest.fixture
def server(root: Path) -> InMemoryServer:
    return python_server(root)


async def rename(root: Path, server: InMemoryServer, **arguments: Any) -> ToolResult:
    given = {"symbol": "old", "newName": "new", **arguments}
    return await rename_symbol.call("lm_renameSymbol", workplace_of(root, server), given, CONTEXT)


async def act(root: Path, server: InMemoryServer, **arguments: Any) -> ToolResult:
    given = {"filePath": "a.py", **arguments}
    return await code_action.call("lm_codeAction", workplace_of(root, server), given, CONTEXT)


async def test_a_dry_run_shows_the_diff_and_changes_nothing(root: Path, server: InMemoryServer) -> None:
    result = await rename(root, server, apply=False)
    assert result.text.startswith(
        "Rename symbol summary\nsymbol: function old at proj/a.py#1\napplied: false\nfiles: 2\nfreshness: py: fresh\n---\n"
    )
    assert DIFF in result.text
    assert isinstance(result.structured, dict)
    assert DIFF in result.structured["diff"]
    assert [one["workspacePath"] for one in result.structured["files"]] == ["proj/a.py", "proj/b.py"]
    assert (root / "a.py").read_text() == "def old():\n    pass\n"


async def test_a_symbol_is_renamed_in_all_files(root: Path, server: InMemoryServer) -> None:
    result = await rename(root, server)
    assert isinstance(result.structured, dict)
    assert result.structured["applied"] is True
    assert (root / "a.py").read_text() == "def new():\n    pass\n"
    assert (root / "b.py").read_text() == "from a import new\nnew()\n"


async def test_an_index_that_is_not_complete_is_shown_but_not_applied(
    root: Path, server: InMemoryServer
) -> None:
    server.state = Freshness("py", "indexing", "it still reads the project", 1, 2)
    with pytest.raises(ToolError, match=r"may miss places \(py: indexing \(1 of 2\)"):
        await rename(root, server)
    assert DIFF in (await rename(root, server, apply=False)).text
    assert (root / "a.py").read_text() == "def old():\n    pass\n"


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\nb", "of ten", "f()", "class", "1st", "a-b", "a.b"])
async def test_a_new_name_has_to_be_a_name(root: Path, server: InMemoryServer, name: str) -> None:
    with pytest.raises(InvalidArguments, match="/newName"):
        await rename(root, server, newName=name)


async def test_a_file_written_while_the_server_answers_stops_all(root: Path, server: InMemoryServer) -> None:
    answer = server.answers["textDocument/rename"]

    def slow(params: Any) -> Any:
        edit = answer(params)
        (root / "b.py").write_text("# mine\nfrom a import old\n")
        return edit

    server.answers["textDocument/rename"] = slow
    with pytest.raises(ToolError, match=r"proj/b\.py: it changed meanwhile"):
        await rename(root, server)
    assert (root / "a.py").read_text() == "def old():\n    pass\n"


@pytest.mark.parametrize(
    "edit",
    [
        {"changes": {"file:///etc/passwd": [{"range": at(0, 0), "newText": "x"}]}},
        {"changes": {"untitled:a": [{"range": at(0, 0), "newText": "x"}]}},
        {"changes": {"A": 7}},
        {"documentChanges": [{"kind": "explode"}]},
        7,
    ],
)
async def test_an_edit_that_is_none_of_the_workspace_is_refused(
    root: Path, server: InMemoryServer, edit: Any
) -> None:
    server.answers["textDocument/rename"] = lambda params: edit
    with pytest.raises(ToolError, match="No file was changed"):
        await rename(root, server)


def action(root: Path, title: str, new: str, **members: Any) -> dict[str, Any]:
    edit = {"changes": {to_uri(root / "a.py"): [{"range": at(1, 4, 1, 8), "newText": new}]}}
    return {"title": title, "kind": "quickfix", "edit": edit, **members}


@pytest.fixture
def actions(root: Path, server: InMemoryServer) -> InMemoryServer:
    offered = [
        action(root, "Return nothing", "return", isPreferred=True),
        action(root, "Raise", "raise", disabled={"reason": "no exception"}),
        {"title": "Later", "kind": "refactor", "data": 5},
        {"title": "Run", "command": {"command": "x", "title": "Run"}},
        {"title": 7},
    ]
    server.answers["textDocument/codeAction"] = lambda params: offered
    server.answers["codeAction/resolve"] = lambda raw: (
        action(root, "Later", "...") if raw.get("data") == 5 else raw
    )
    server.found = {root / "a.py": [diagnostic("x", at(1, 0, 1, 2)), diagnostic("far", at(0, 0))]}
    return server


async def test_actions_are_listed_with_the_diagnostics_of_their_lines(
    root: Path, actions: InMemoryServer
) -> None:
    result = await act(root, actions, line=2, kinds=["quickfix"])
    assert result.text == "\n".join([
        "Code actions summary", "count: 4", "freshness: py: fresh",
        "---", "Return nothing", "quickfix (py), preferred",
        "---", "Raise", "quickfix (py), not possible: no exception",
        "---", "Later", "refactor (py)",
        "---", "Run", "action (py)",
    ])  # fmt: skip
    (params,) = (params for method, params in actions.asked if method == "textDocument/codeAction")
    assert params["range"] == at(1, 0, 1, 8)
    assert [one["message"] for one in params["context"]["diagnostics"]] == ["x"]
    assert params["context"]["only"] == ["quickfix"]


@pytest.mark.parametrize(("title", "text"), [("return nothing", "return"), ("Later", "...")])
async def test_an_action_is_shown_then_applied(
    root: Path, actions: InMemoryServer, title: str, text: str
) -> None:
    shown = await act(root, actions, line=2, action=title)
    assert f"+    {text}" in shown.text
    assert (root / "a.py").read_text() == "def old():\n    pass\n"
    done = await act(root, actions, line=2, action=title, apply=True)
    assert isinstance(done.structured, dict)
    assert done.structured["applied"] is True
    assert (root / "a.py").read_text() == f"def old():\n    {text}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action": "none"}, "There are: Return nothing; Raise; Later; Run"),
        ({"action": "r"}, "several actions fit"),
        ({"action": "raise"}, "not possible: no exception"),
        ({"action": "run"}, "runs a command inside py"),
        ({"line": 99}, "/line: the file has 3 lines"),
        ({"line": 2, "endLine": 1}, "/endLine"),
    ],
)
async def test_what_cannot_be_done_is_refused(
    root: Path, actions: InMemoryServer, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidArguments, ToolError), match=message):
        await act(root, actions, **arguments)


async def test_linters_have_actions_too(root: Path) -> None:
    linter = InMemoryServer(kind("ruff", ".py", roles=frozenset({"diagnostics"})))
    linter.answers["textDocument/codeAction"] = lambda params: [action(root, "Fix", "x")]
    assert "quickfix (ruff)" in (await act(root, linter)).text
