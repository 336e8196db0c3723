"""Answers about code show nothing of files outside: whatever led a language server there, whatever it says."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from lm_tools_bridge.code_intelligence.clangd import calls as clangd_calls
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.definitions import MODULES
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD, Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    InMemoryServers,
    at,
    diagnostic,
    kind,
    no_environment,
)
from workspace_server.files.file_gate import FileGate
from workspace_server.tool import ToolError, ToolResult
from workspace_server.workspace import Workspace

SECRET: Final = "wJalrXUtnFEMIK7MDENG"
INSIDE: Final = "from creds import key\nother = key\nprint(other)\n"
AT: Final = {"filePath": "main.py", "line": 2, "character": 1}
CLANGD_AT: Final = {"filePath": "main.py", "position": {"line": 2, "character": 1}}
ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "lm_getDiagnostics": {},
    "lm_findSymbol": {"query": ".", "match": "regex"},
    "lm_fileOutline": {"filePath": "main.py"},
    "lm_symbolInfo": AT,
    "lm_references": AT,
    "lm_implementations": AT,
    "lm_callHierarchy": AT,
    "lm_typeHierarchy": AT,
    "lm_renameSymbol": {**AT, "newName": "better", "apply": False},
    "lm_editSymbol": {**AT, "action": "replace", "text": "better = 1", "apply": False},
    "lm_codeAction": {"filePath": "main.py", "line": 2, "action": "inline", "apply": False},
}
CLANGD_ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "switchSourceHeader": {"filePath": "main.py"},
    "symbolSearch": {"query": ".", "matchMode": "regex"},
    "symbolInfo": CLANGD_AT,
    "symbolReferences": CLANGD_AT,
    "symbolImplementations": CLANGD_AT,
    "callHierarchy": CLANGD_AT,
    "typeHierarchy": CLANGD_AT,
    "symbolBundle": CLANGD_AT,
    "lspRequest": {"method": "textDocument/hover", "params": CLANGD_AT},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project beside a home folder with a secret and a folder of more of them."""
    real = tmp_path.resolve()
    write_tree(real / "home", {".aws/creds.py": f"key = '{SECRET}'\n", "more/creds.py": f"{SECRET} = 1\n"})
    return write_tree(real / "proj", {"main.py": INSIDE})


def linked_file(root: Path) -> Path:
    (root / "creds.py").symlink_to("../home/.aws/creds.py")
    return root / "creds.py"


def linked_folder(root: Path) -> Path:
    (root / "pkg").symlink_to("../home/more")
    return root / "pkg/creds.py"


def chain_of_links(root: Path) -> Path:
    (root / "first").symlink_to("../home/.aws")
    (root / "creds.py").symlink_to("first/creds.py")
    return root / "creds.py"


def outside_path(root: Path) -> Path:
    return root.parent / "home/.aws/creds.py"


LINKS: Final = [linked_file, linked_folder, chain_of_links]
INFERRED: Final = {"lm_getDiagnostics", "lm_renameSymbol", "lm_codeAction"}
"""Tools that say what a server infers about a file inside. Whose words these are is known of links only."""
WAYS: Final = [
    *((name, way) for name in (*ARGUMENTS, *CLANGD_ARGUMENTS) for way in LINKS),
    *((name, outside_path) for name in (*ARGUMENTS, *CLANGD_ARGUMENTS) if name not in INFERRED),
]


def talking_server(root: Path, outside: Path) -> InMemoryServer:
    """A server that has read the outside file, and says so in each of its answers."""
    location = {"uri": to_uri(outside), "range": at(0, 0, 0, 3)}
    item = {
        "name": SECRET, "kind": 12, "uri": to_uri(outside), "range": at(0, 0, 0, 3),
        "selectionRange": at(0, 0, 0, 3), "detail": SECRET,
    }  # fmt: skip
    symbol = {"name": SECRET, "kind": 13, "location": location, "containerName": SECRET}
    edit = {"changes": {to_uri(root / "main.py"): [{"range": at(1, 8, 1, 11), "newText": f"'{SECRET}'"}]}}
    call = {"from": item, "to": item, "fromRanges": [at(0, 0)]}
    answers: dict[str, Any] = {
        "textDocument/hover": {"contents": {"kind": "markdown", "value": f"Literal['{SECRET}']"}},
        "textDocument/definition": [location],
        "textDocument/declaration": [location],
        "textDocument/typeDefinition": [location],
        "textDocument/references": [location],
        "textDocument/implementation": [location],
        "textDocument/documentSymbol": [],
        "textDocument/symbolInfo": [{"name": SECRET, "definitionRange": location}],
        "textDocument/switchSourceHeader": to_uri(outside),
        "textDocument/rename": edit,
        "textDocument/codeAction": [
            {"title": f"Inline {SECRET}", "edit": edit},
            {"title": "inline", "edit": edit},
        ],
        "textDocument/prepareCallHierarchy": [item],
        "textDocument/prepareTypeHierarchy": [item],
        "callHierarchy/incomingCalls": [call],
        "callHierarchy/outgoingCalls": [call],
        "typeHierarchy/supertypes": [item],
        "typeHierarchy/subtypes": [item],
        "workspace/symbol": [symbol],
    }
    found = {
        root / "main.py": [diagnostic(f"expected int, got Literal['{SECRET}']", at(1, 0, 1, 4))],
        outside: [diagnostic(f"undefined name {SECRET}", at(0, 0, 0, 3), code="F821")],
    }
    made = {method: (lambda params, answer=answer: answer) for method, answer in answers.items()}
    return InMemoryServer(kind("clangd", ".py"), made, found)


def scene(root: Path, outside: Path) -> tuple[Workspace, InMemoryServers]:
    servers = InMemoryServers([talking_server(root, outside)])
    servers.links = [str(path) for path in root.iterdir() if path.is_symlink()]
    return Workspace.of(root), servers


async def told(name: str, root: Path, outside: Path, **more: Any) -> str:
    """All that a tool says."""
    workspace, servers = scene(root, outside)
    workplace = Workplace(workspace, servers, 0.0, no_environment)
    if name in CLANGD_ARGUMENTS:
        settings, arguments = ClangdSettings(enabled=True), {**CLANGD_ARGUMENTS[name], **more}
        result = await clangd_calls.run(f"lm_clangd_{name}", arguments, workplace, settings)
    else:
        module = importlib.import_module(f"lm_tools_bridge.code_intelligence.tools.{MODULES[name]}")
        words = () if name == "lm_getDiagnostics" else (name,)
        tail = (CONTEXT,)
        try:
            result = await module.call(*words, workplace, {**ARGUMENTS[name], **more}, *tail)
        except ToolError as error:
            return str(error)
    assert isinstance(result, ToolResult)
    return f"{result.text}\n{json.dumps(result.structured)}"


def test_every_tool_is_asked_here() -> None:
    assert set(ARGUMENTS) == set(MODULES)
    assert set(CLANGD_ARGUMENTS) == set(clangd_calls._CALLS)


@pytest.mark.parametrize(("name", "way"), WAYS)
async def test_nothing_of_an_outside_file_is_shown(
    root: Path, name: str, way: Callable[[Path], Path]
) -> None:
    assert SECRET not in await told(name, root, way(root))


@pytest.mark.parametrize("way", [*LINKS, outside_path])
async def test_the_place_is_told_without_its_text(root: Path, way: Callable[[Path], Path]) -> None:
    outside = way(root)
    said = await told("lm_references", root, outside, includeDeclaration=True)
    assert "creds.py\n1: \n" in said
    assert "key" not in said
    said = await told("lm_references", root, outside, includeDeclaration=True, detail="context")
    assert "creds.py#1" in said
    assert "key" not in said


@pytest.mark.parametrize("file", [linked_file, outside_path])
async def test_an_outside_file_that_is_asked_about_is_checked_without_its_words(
    root: Path, file: Callable[[Path], Path]
) -> None:
    said = await told("lm_getDiagnostics", root, outside_path(root), filePath=str(file(root)))
    assert SECRET not in said
    assert "F821" in said and WITHHELD in said


async def test_what_names_a_kernel_file_keeps_all_words_of_servers_back(root: Path) -> None:
    (root / "env.py").symlink_to("/proc/self/environ")
    said = await told("lm_symbolInfo", root, root / "main.py")
    assert SECRET not in said and WITHHELD in said


async def test_hover_and_source_of_the_project_and_of_libraries_stay(root: Path) -> None:
    (root / "creds.py").write_text(f"key = '{SECRET}'\n")
    said = await told("lm_symbolInfo", root, root / "creds.py")
    assert f"Literal['{SECRET}']" in said and f"key = '{SECRET}'" in said
    library = root.parent / "home/.aws"
    assert Texts(FileGate([root], [library])).lines(library / "creds.py") == [f"key = '{SECRET}'", ""]


def test_words_of_the_files_themselves_are_no_repetition(root: Path) -> None:
    linked_file(root)
    texts = Texts(FileGate([root]), lambda: [str(root / "creds.py")])
    main = root / "main.py"
    assert texts.may_say("other print creds", [main])
    assert not texts.may_say(f"Literal['{SECRET[:12]}…", [main])
    assert texts.may_say(SECRET, [main], caller_words=SECRET)
    main.write_text(f"a = '{SECRET}'\n")
    assert Texts(FileGate([root]), lambda: [str(root / "creds.py")]).may_say(SECRET, [main])


def test_a_link_to_a_large_folder_keeps_all_words_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linked_folder(root)
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.tools.texts.MAX_BEHIND", 0)
    assert not Texts(FileGate([root]), lambda: [str(root / "pkg")]).may_say("anything", [root / "main.py"])
