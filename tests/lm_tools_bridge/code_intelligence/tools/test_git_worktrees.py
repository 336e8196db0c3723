"""Language tools and git worktrees inside the project: left out of answers, and refused where they are named."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.clangd import client
from lm_tools_bridge.code_intelligence.clangd.answers import ClangdFailure
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.definitions import MODULES
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.git_repositories import repository, worktree
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    at,
    diagnostic,
    kind,
    workplace_of,
)
from support.servers.language_servers.python_symbols import python_server
from workspace_server.tool import InvalidArguments, ToolResult

CODE = "def f():\n    return 1\n\n\ndef g():\n    return f()\n"


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return repository(tmp_path / "main", mod_py=CODE)


@pytest.fixture
def tree(main: Path) -> Path:
    return worktree(main)


async def run(name: str, root: Path, *servers: InMemoryServer, **arguments: Any) -> ToolResult:
    module = importlib.import_module(f"lm_tools_bridge.code_intelligence.tools.{MODULES[name]}")
    place = workplace_of(root, *servers)
    named = () if name == "lm_getDiagnostics" else (name,)
    result: ToolResult = await module.call(*named, place, arguments, CONTEXT)
    return result


async def test_diagnostics_of_the_project_leave_copies_out(main: Path, tree: Path) -> None:
    found = {
        main / "mod.py": [diagnostic("ours", at(0, 0))],
        tree / "mod.py": [diagnostic("theirs", at(0, 0))],
    }
    server = InMemoryServer(kind("ty", ".py"), found=found)
    structured = (await run("lm_getDiagnostics", main, server)).structured
    assert [file["absolutePath"] for file in structured["files"]] == [str(main / "mod.py")]
    assert structured["totalDiagnostics"] == 1
    structured = (await run("lm_getDiagnostics", tree, server)).structured
    assert {file["absolutePath"] for file in structured["files"]} == {
        str(main / "mod.py"),
        str(tree / "mod.py"),
    }


def everywhere(*paths: Path) -> list[dict[str, Any]]:
    return [{"uri": to_uri(path), "range": at(5, 11)} for path in paths]


async def test_uses_and_declarations_in_copies_are_left_out(main: Path, tree: Path) -> None:
    server = python_server(main)
    copy, ours = tree / "mod.py", main / "mod.py"
    server.answers["textDocument/references"] = lambda params: everywhere(ours, copy)
    told = (await run("lm_references", main, server, symbol="f", filePath="mod.py")).structured
    assert [entry["absolutePath"] for entry in told["references"]] == [str(ours)]
    assert (told["total"], told["files"]) == (1, 1)
    server.answers["workspace/symbol"] = lambda params: [
        {"name": "f", "kind": 12, "location": {"uri": to_uri(path), "range": at(0, 4)}}
        for path in (copy, ours)
    ]
    told = (await run("lm_findSymbol", main, server, query="f")).structured
    assert [entry["location"]["absolutePath"] for entry in told["symbols"]] == [str(ours)]


async def test_callers_in_copies_are_left_out(main: Path, tree: Path) -> None:
    def item(path: Path) -> dict[str, Any]:
        return {"name": "g", "kind": 12, "uri": to_uri(path), "range": at(4, 0), "selectionRange": at(4, 4)}

    server = python_server(main)
    server.answers["textDocument/prepareCallHierarchy"] = lambda params: [item(main / "mod.py")]
    server.answers["callHierarchy/incomingCalls"] = lambda params: [
        {"from": item(path), "fromRanges": []} for path in (main / "mod.py", tree / "mod.py")
    ]
    arguments = {"symbol": "f", "filePath": "mod.py", "direction": "incoming"}
    told = (await run("lm_callHierarchy", main, server, **arguments)).structured
    assert [entry["location"]["absolutePath"] for entry in told["entries"]] == [str(main / "mod.py")]


async def test_a_rename_changes_nothing_in_copies(main: Path, tree: Path) -> None:
    server = python_server(main)
    change = [{"range": at(0, 4, 0, 5), "newText": "h"}]
    server.answers["textDocument/rename"] = lambda params: {
        "changes": {to_uri(main / "mod.py"): change, to_uri(tree / "mod.py"): change}
    }
    arguments = {"symbol": "f", "filePath": "mod.py", "newName": "h"}
    told = (await run("lm_renameSymbol", main, server, **arguments)).structured
    assert [file["absolutePath"] for file in told["files"]] == [str(main / "mod.py")]
    assert (main / "mod.py").read_text().startswith("def h()")
    assert (tree / "mod.py").read_text() == CODE


TOOLS = {
    "lm_getDiagnostics": {},
    "lm_findSymbol": {"query": "f"},
    "lm_symbolInfo": {"line": 1},
    "lm_references": {"line": 1},
    "lm_fileOutline": {},
    "lm_codeAction": {},
    "lm_renameSymbol": {"line": 1, "newName": "h"},
}


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("place", ["inside", "beside"])
async def test_a_file_of_another_worktree_is_refused_with_both_folders_and_the_next_step(
    main: Path, name: str, place: str
) -> None:
    other = worktree(main, ".claude/worktrees/feat" if place == "inside" else "../beside")
    server = python_server(main)
    with pytest.raises(InvalidArguments) as refused:
        await run(name, main, server, filePath=str(other / "mod.py"), **TOOLS[name])
    assert refused.value.pointer == "/filePath"
    for part in (str(main), str(other), "lmToolsBridge.callTool", f'`cwd` "{other}"', "worktree"):
        assert part in refused.value.message
    assert (server.asked, server.diagnosed) == ([], [])


async def test_a_relative_path_into_a_copy_is_refused_and_a_fake_one_is_not(main: Path, tree: Path) -> None:
    server = InMemoryServer(kind("ty", ".py"))
    with pytest.raises(InvalidArguments, match="a git worktree with its own language servers"):
        await run("lm_getDiagnostics", main, server, filePath=".claude/worktrees/feat/mod.py")
    fake = main / "fake"
    fake.mkdir()
    (fake / ".git").write_bytes((tree / ".git").read_bytes())
    (fake / "mod.py").write_text("")
    await run("lm_getDiagnostics", main, server, filePath="fake/mod.py")
    assert server.diagnosed == [[fake / "mod.py"]]


async def test_a_file_of_another_project_is_refused_by_name(main: Path, tmp_path: Path) -> None:
    other = repository(tmp_path / "other", mod_py=CODE)
    with pytest.raises(InvalidArguments) as refused:
        await run(
            "lm_getDiagnostics", main, InMemoryServer(kind("ty", ".py")), filePath=str(other / "mod.py")
        )
    assert refused.value.message == (
        f"outside the workspace {main}: it lies in {other}, another project. Call the tool there: "
        f'lmToolsBridge.callTool with `cwd` "{other}"'
    )


@pytest.mark.parametrize("place", [".claude/worktrees/feat", "../beside"])
def test_clangd_refuses_files_of_other_worktrees(main: Path, place: str) -> None:
    other = worktree(main, place)
    with pytest.raises(ClangdFailure, match="worktree"):
        client.find_file(workplace_of(main), str(other / "mod.py"))
    assert client.find_file(workplace_of(main), "mod.py") == main / "mod.py"
    assert client.find_file(workplace_of(other), "mod.py") == other / "mod.py"


async def test_places_that_clangd_names_in_copies_are_left_out(main: Path, tree: Path) -> None:
    assert await clangd_places(main, main / "mod.py", tree / "mod.py") == [main / "mod.py"]
    assert await clangd_places(tree, tree / "mod.py") == [tree / "mod.py"]


async def clangd_places(root: Path, *paths: Path) -> list[Path]:
    """The files of the places that a call of clangd in a project takes from an answer."""
    call = await client.begin(workplace_of(root, InMemoryServer(kind("clangd", ".py"))), ClangdSettings())
    return [place.path for place in await call.places(everywhere(*paths))]
