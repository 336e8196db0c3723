"""A rename takes exported names along, tells what it did to the errors, and can be taken back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server import DiagnosticsAnswer
from lm_tools_bridge.code_intelligence.tools.editing import rename_symbol
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
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
from workspace_server.tool import ToolError, ToolResult

FILES = {
    "a.py": "def old():\n    pass\n\n\n__all__ = ['old']\n",
    "b.py": "from a import old\nold()\n__all__ = ['old']\n",
    "c.py": "from a import *\n__all__ = ['old']\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", FILES)


@pytest.fixture
def server(root: Path) -> InMemoryServer:
    """A server that leaves strings alone, as most do."""
    server = python_server(root)
    whole = server.answers["textDocument/rename"]

    def without_strings(params: Any) -> Any:
        changes = whole(params)["changes"]
        for uri, edits in changes.items():
            lines = Path(uri.removeprefix("file://")).read_text().split("\n")
            changes[uri] = [edit for edit in edits if "__all__" not in lines[edit["range"]["start"]["line"]]]
        return {"changes": {uri: edits for uri, edits in changes.items() if edits}}

    server.answers["textDocument/rename"] = without_strings
    return server


async def rename(workplace: Workplace, **arguments: Any) -> ToolResult:
    asked = {"symbol": "old", "newName": "new", **arguments}
    return await rename_symbol.call("lm_renameSymbol", workplace, asked, CONTEXT)


def breaks(server: InMemoryServer, monkeypatch: pytest.MonkeyPatch, *states: dict[Path, list[str]]) -> None:
    """Let the server see these errors, the first ones before the rename."""
    left = list(states)
    ask = InMemoryServer.diagnostics

    async def diagnostics(
        self: InMemoryServer, paths: Sequence[Path] | None, wait_s: float
    ) -> DiagnosticsAnswer:
        seen = left.pop(0)
        self.found = {
            path: [diagnostic(each, at(0, 0)) for each in each_file] for path, each_file in seen.items()
        }
        return await ask(self, paths, wait_s)

    monkeypatch.setattr(InMemoryServer, "diagnostics", diagnostics)


async def test_strings_in_all_are_renamed_too(root: Path, server: InMemoryServer) -> None:
    await rename(workplace_of(root, server))
    assert {name: (root / name).read_text() for name in FILES} == {
        name: text.replace("old", "new") for name, text in FILES.items()
    }


async def test_what_the_server_renames_itself_is_renamed_once(root: Path) -> None:
    await rename(workplace_of(root, python_server(root)))
    assert (root / "b.py").read_text() == FILES["b.py"].replace("old", "new")


async def test_a_rename_without_new_errors_says_so(
    root: Path, server: InMemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(server, monkeypatch, {root / "a.py": ["old is odd"]}, {root / "a.py": ["new is odd"]})
    result = await rename(workplace_of(root, server))
    assert "errors: 1 before, 1 after (py)\nundo: lm_renameSymbol with newName new and undo: true\n---\n" in (
        result.text
    )
    assert result.structured["errors"] == {"before": 1, "after": 1, "new": [], "providers": ["py"]}


async def test_a_rename_that_raises_the_number_of_errors_says_so_and_offers_the_undo(
    root: Path, server: InMemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(server, monkeypatch, {root / "b.py": []}, {root / "b.py": ["new has two meanings"]})
    workplace = workplace_of(root, server)
    result = await rename(workplace)
    head = result.text.partition("\n---\n")[0].split("\n")
    assert head[-4:] == [
        "the rename raised the number of errors: check them, or take it back",
        "errors: 0 before, 1 after (py)",
        "proj/b.py [error] 1:1-1:2 new has two meanings",
        "undo: lm_renameSymbol with newName new and undo: true",
    ]
    shown = await rename(workplace, undo=True, apply=False)
    assert shown.text.startswith("Rename to take back\nfiles: 3\n")
    assert "def new" in (root / "a.py").read_text()  # nobody approves a call with apply: false
    undone = await rename(workplace, undo=True)
    assert undone.text == "Rename taken back\nfiles: 3\nproj/a.py\nproj/b.py\nproj/c.py"
    assert {name: (root / name).read_text() for name in FILES} == FILES
    with pytest.raises(ToolError, match="no rename of this project is kept"):
        await rename(workplace, undo=True)


async def test_an_undo_after_further_edits_changes_nothing(root: Path, server: InMemoryServer) -> None:
    workplace = workplace_of(root, server)
    await rename(workplace)
    (root / "b.py").write_text("# mine\n")
    with pytest.raises(ToolError, match=r"cannot be taken back: .*b\.py changed meanwhile"):
        await rename(workplace, undo=True)
    assert "def new" in (root / "a.py").read_text()


async def test_errors_that_nobody_checked_are_not_called_none(root: Path, server: InMemoryServer) -> None:
    object.__setattr__(server.specification, "roles", frozenset({"symbols"}))
    result = await rename(workplace_of(root, server))
    assert "errors: not checked, because no server that checks these files answered in time" in result.text


async def test_a_file_behind_a_link_is_shown_but_not_changed(root: Path, server: InMemoryServer) -> None:
    (root / "real").mkdir()
    (root / "real/d.txt").write_text("old()\n")
    (root / "d.py").symlink_to("real/d.txt")
    edit = {
        "changes": {
            to_uri(root / "a.py"): [{"range": at(0, 4, 0, 7), "newText": "new"}],
            to_uri(root / "d.py"): [{"range": at(0, 0, 0, 3), "newText": "new"}],
        }
    }
    server.answers["textDocument/rename"] = lambda _: edit
    result = await rename(workplace_of(root, server), apply=False)
    assert "not applied to links: proj/d.py" in result.text
    assert "--- a/proj/d.py\n+++ b/proj/d.py\n@@ -1,2 +1,2 @@\n-old()\n+new()" in result.text
    with pytest.raises(ToolError, match=r"proj/d\.py: it is a link"):
        await rename(workplace_of(root, server), allowIncomplete=True)
    assert (root / "real/d.txt").read_text() == "old()\n"
    assert (root / "a.py").read_text() == FILES["a.py"]


async def test_a_link_out_of_the_project_shows_nothing(root: Path, server: InMemoryServer) -> None:
    outside = write_tree(root.parent / "elsewhere", {"secret.py": "old = 'key'\n"})
    (root / "d.py").symlink_to(outside / "secret.py")
    edit = {"changes": {to_uri(root / "d.py"): [{"range": at(0, 0, 0, 3), "newText": "new"}]}}
    server.answers["textDocument/rename"] = lambda _: edit
    with pytest.raises(ToolError, match="leads out of the workspace") as refused:
        await rename(workplace_of(root, server), apply=False)
    assert "key" not in str(refused.value)


async def test_a_tag_of_c_and_the_type_of_its_name_are_renamed_together(tmp_path: Path) -> None:
    text = "typedef struct old { int a; } old;\nold x;\nstruct old y;\n"
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"a.c": text})
    server = InMemoryServer(kind("clangd", ".c"))
    tag, typed, uses = at(0, 15, 0, 18), at(0, 30, 0, 33), {15: at(2, 7, 2, 10), 30: at(1, 0, 1, 3)}

    def outline(_: Any) -> list[dict[str, Any]]:
        whole = {"struct": at(0, 8, 0, 29), "class": at(0, 0, 0, 33)}
        return [
            {"name": "old", "kind": 23, "range": whole["struct"], "selectionRange": tag},
            {"name": "old", "kind": 5, "range": whole["class"], "selectionRange": typed},
        ]

    def renamed(params: Any) -> dict[str, Any]:
        own = params["position"]["character"]
        places = [tag if own == 15 else typed, uses[own]]
        edits = [{"range": place, "newText": params["newName"]} for place in places]
        return {"changes": {to_uri(root / "a.c"): edits}}

    server.answers = {"textDocument/documentSymbol": outline, "textDocument/rename": renamed}
    await rename(workplace_of(root, server))
    assert (root / "a.c").read_text() == text.replace("old", "new")
