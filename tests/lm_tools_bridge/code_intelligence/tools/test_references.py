"""A server to which nothing says what belongs to the project is given the files with the name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.tools import known_files, references
from lm_tools_bridge.code_intelligence.tools.editing import rename_symbol
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path, to_uri
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import CONTEXT, InMemoryServer, at, kind, workplace_of
from support.servers.language_servers.python_symbols import python_server
from workspace_server.tool import ToolError, ToolResult

WHY = "without a project file it knows only what it was given"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"a.py": "def old():\n    pass\n", "b.py": "from a import old\nold()\n", "c.py": "x = 1\n"}
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)


def server_of(root: Path, state: Freshness) -> InMemoryServer:
    """A server that knows uses in files that were opened only."""
    server = python_server(root, joins_open_files=True, without_project_files=WHY)
    whole = {method: server.answers[method] for method in ("textDocument/references", "textDocument/rename")}
    for method, answer in whole.items():
        server.answers[method] = lambda params, answer=answer: (
            answer(params) if root / "b.py" in server.opened else None
        )
    server.state = state
    return server


@pytest.mark.parametrize("address", [{"symbol": "old"}, {"filePath": "a.py", "line": 1, "character": 5}])
async def test_uses_in_files_that_it_was_not_given_are_found(root: Path, address: dict[str, object]) -> None:
    server = server_of(root, Freshness("py", "partial", WHY))
    found = await references.call("lm_references", workplace_of(root, server), address, CONTEXT)
    assert found.structured is not None
    assert found.structured["total"] == 2
    assert found.structured["freshness"][0]["state"] == "partial"
    assert root / "c.py" not in server.opened


async def test_a_rename_changes_files_that_it_was_not_given(root: Path) -> None:
    server = server_of(root, Freshness("py", "partial", WHY))
    await rename_symbol.call(
        "lm_renameSymbol", workplace_of(root, server), {"symbol": "old", "newName": "new"}, CONTEXT
    )
    assert (root / "b.py").read_text() == "from a import new\nnew()\n"


PROJECTS = {
    "src/core.ts": "tsconfig.app.json",
    "src/user.ts": "tsconfig.app.json",
    "src/core.test.ts": "",
    "scripts/tool.ts": "tsconfig.node.json",
    "scripts/other.ts": "tsconfig.node.json",
    "e2e/x.ts": "",
    "e2e/goal.ts": "",
    "e2e/unrelated.ts": "",
}


def typescript_server(root: Path, texts: dict[str, str]) -> InMemoryServer:
    """A server that knows uses in projects of which a file is open, and in open files."""
    server = InMemoryServer(kind("ts", ".ts", joins_open_files=True, without_project_files=WHY))

    def project(path: Path) -> str:
        return PROJECTS[path.relative_to(root).as_posix()]

    def references(_: Any) -> list[dict[str, Any]]:
        read = {project(path) for path in server.opened} - {""}
        return [
            {"uri": to_uri(root / name), "range": at(0, use.start(), 0, use.end())}
            for name, text in texts.items()
            if PROJECTS[name] in read or root / name in server.opened
            for use in re.finditer(r"\b(?:target|goal)\b", text)
        ]

    server.answers = {
        "textDocument/references": references,
        "custom/projectInfo": lambda params: {
            "configFilePath": project(to_path(params["textDocument"]["uri"], Path) or root)
        },
    }
    return server


TYPESCRIPT = {
    **dict.fromkeys(PROJECTS, 'import { target } from "../src/core"; target();'),
    "src/core.ts": "function target() {} export { target as goal };",
    "e2e/goal.ts": 'import { goal } from "../src/core"; goal();',
    "e2e/unrelated.ts": "const other = 1;",
}


async def test_all_projects_and_files_of_none_are_asked_at_the_first_question(tmp_path: Path) -> None:
    root = write_tree(Path(os.path.realpath(tmp_path)), TYPESCRIPT)
    server = typescript_server(root, TYPESCRIPT)
    address = {"filePath": "src/core.ts", "line": 1, "character": 10}
    for _ in range(2):
        found = await references.call("lm_references", workplace_of(root, server), address, CONTEXT)
        assert found.structured is not None
        files = {one["workspacePath"].partition("/")[2] for one in found.structured["references"]}
        assert files == set(TYPESCRIPT) - {"e2e/unrelated.ts"}
        assert found.structured["freshness"] == [{"provider": "ts", "state": "fresh"}]
    assert root / "e2e/unrelated.ts" not in server.opened
    opened = {root / "scripts/other.ts", root / "scripts/tool.ts"} & set(server.opened)
    assert len(opened) == 1  # one file of a project is enough


async def test_an_answer_is_partial_if_files_with_the_name_could_not_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.tools.known_files.MAX_GIVEN", 2)
    root = write_tree(Path(os.path.realpath(tmp_path)), TYPESCRIPT)
    server = typescript_server(root, TYPESCRIPT)
    address = {"filePath": "src/core.ts", "line": 1, "character": 10}
    found = await references.call("lm_references", workplace_of(root, server), address, CONTEXT)
    assert found.structured is not None
    (freshness,) = found.structured["freshness"]
    assert freshness["state"] == "partial"
    assert "3 more files with the name belong to no project" in freshness["reason"]


async def test_importers_of_a_default_export_are_asked_whatever_they_call_it(tmp_path: Path) -> None:
    files = {
        "src/core.ts": "export default class target {}",
        "e2e/x.ts": 'import Anything from "../src/core";',
        "e2e/unrelated.ts": 'import Anything from "../src/scored";',
    }
    root = write_tree(Path(os.path.realpath(tmp_path)), files)
    server = typescript_server(root, files)
    address = {"filePath": "src/core.ts", "line": 1, "character": 22}
    await references.call("lm_references", workplace_of(root, server), address, CONTEXT)
    assert root / "e2e/x.ts" in server.opened
    assert root / "e2e/unrelated.ts" not in server.opened


@pytest.mark.parametrize("name", ["RedisModule_Init", "cJSON_Parse"])
async def test_files_that_the_compilation_database_lacks_are_read_and_told(tmp_path: Path, name: str) -> None:
    files = {
        "src/a.c": f"int {name}(void);\n",
        "tests/b.c": f"int x = {name}();\n",
        "tests/other.c": "int y;\n",
    }
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)
    clangd = kind("clangd", ".c", project_files=("compile_commands.json",))
    server = InMemoryServer(clangd, guessed=[root / "tests/b.c", root / "tests/other.c"])
    parsed: set[str] = set()

    def outline(params: dict[str, Any]) -> list[Any]:
        parsed.add(params["textDocument"]["uri"])
        return []

    use = {"uri": to_uri(root / "tests/b.c"), "range": at(0, 8, 0, 8 + len(name))}
    server.answers = {
        "textDocument/documentSymbol": outline,
        "textDocument/references": lambda params: [use] if use["uri"] in parsed else [],
    }
    address = {"filePath": "src/a.c", "line": 1, "symbol": name}
    found = await references.call("lm_references", workplace_of(root, server), address, CONTEXT)
    assert found.structured is not None
    assert found.structured["total"] == 1
    (freshness,) = found.structured["freshness"]
    assert freshness["state"] == "partial"
    assert "compile_commands.json lacks files with the name: proj/tests/b.c;" in freshness["reason"]
    assert root / "tests/other.c" not in server.opened


@pytest.mark.parametrize("count", [1, known_files.MAX_GIVEN + 1])
async def test_a_server_whose_configuration_leaves_files_out_is_given_those_with_the_name(
    root: Path, count: int
) -> None:
    """As Pyright with `include`: it finds uses in what it was told, and in open files."""
    write_tree(root, {f"users/{number}.py": "from a import old\n" for number in range(count)})
    server = python_server(root, needs_named_files=True)
    whole = server.answers["textDocument/references"]
    server.answers["textDocument/references"] = lambda params: [
        use for use in whole(params) if to_path(use["uri"], Path) in server.opened
    ]
    answer = await references.call("lm_references", workplace_of(root, server), {"symbol": "old"}, CONTEXT)
    assert answer.structured is not None
    state = answer.structured["freshness"][0]
    if count == 1:
        assert (answer.structured["total"], state["state"]) == (3, "fresh")
    else:
        assert state["state"] == "partial"
        assert "3 more files with the name" in state["reason"]


async def test_uses_by_another_name_of_the_file_are_found_and_keep_it_from_a_rename(root: Path) -> None:
    server = python_server(root)
    alias = root / "link/a.py"
    (root / "link").symlink_to(root)
    server.other_names[root / "a.py"] = [alias]
    whole = server.answers["textDocument/references"]

    def by_name(params: dict[str, Any]) -> Any:
        named = to_path(params["textDocument"]["uri"], Path)
        found = [one for one in whole(params) if ("b.py" in one["uri"]) == (named == alias)]
        return [{**one, "uri": one["uri"].replace("/proj/", "/proj/link/")} for one in found] + found

    server.answers["textDocument/references"] = by_name
    found = await references.call("lm_references", workplace_of(root, server), {"symbol": "old"}, CONTEXT)
    assert found.structured is not None
    assert {one["workspacePath"] for one in found.structured["references"]} == {"proj/b.py"}
    asked = {"symbol": "old", "newName": "new"}
    with pytest.raises(ToolError, match=r"uses over proj/link/a\.py, another name .* No file was changed"):
        await rename_symbol.call("lm_renameSymbol", workplace_of(root, server), asked, CONTEXT)
    shown = await rename_symbol.call(
        "lm_renameSymbol", workplace_of(root, server), {**asked, "apply": False}, CONTEXT
    )
    assert shown.structured is not None
    assert shown.structured["freshness"][0]["state"] == "partial"


@pytest.mark.parametrize(
    "address",
    [
        {"symbol": "late"},
        {"filePath": "a.py", "line": 1, "character": 5},
        {"filePath": "c.py", "line": 2, "character": 1},
    ],
)
async def test_imports_and_assignments_are_uses_and_the_declaration_is_none(
    tmp_path: Path, address: dict[str, object]
) -> None:
    files = {"a.py": "def late():\n    pass\n", "b.py": "from a import late\n"}
    files["c.py"] = "from a import late\nlate()\nlate = late\n"
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)
    workplace = workplace_of(root, python_server(root))
    expected_uses = [("b.py", 1), ("c.py", 1), ("c.py", 2), ("c.py", 3), ("c.py", 3)]
    answer = await references.call("lm_references", workplace, address, CONTEXT)
    assert lines_in(answer) == expected_uses
    whole = await references.call(
        "lm_references", workplace, {**address, "includeDeclaration": True}, CONTEXT
    )
    assert lines_in(whole) == [("a.py", 1), *expected_uses]


@pytest.mark.parametrize("asked", ["f.c", "f.h"])
async def test_what_is_declared_apart_is_used_at_neither_place(tmp_path: Path, asked: str) -> None:
    files = {"f.h": "int f(void);\n", "f.c": "int f(void) { return 0; }\n", "g.c": "int x = f();\n"}
    root = write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)
    server = InMemoryServer(kind("clangd", ".c", ".h"))
    declared, defined, used = (
        {"uri": to_uri(root / name), "range": at(0, column, 0, column + 1)}
        for name, column in (("f.h", 4), ("f.c", 4), ("g.c", 8))
    )
    server.answers = {
        "textDocument/references": lambda params: [declared, defined, used],
        "textDocument/definition": lambda params: [defined],
        "textDocument/declaration": lambda params: [declared],
    }
    address = {"filePath": asked, "line": 1, "character": 5}
    answer = await references.call("lm_references", workplace_of(root, server), address, CONTEXT)
    assert lines_in(answer) == [("g.c", 1)]


@pytest.fixture
def stubbed(tmp_path: Path) -> Path:
    files = {
        "m.py": "def old():\n    pass\n",
        "m.pyi": "def old() -> None: ...\n",
        "b.py": "from m import old\n",
    }
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)


def stub_server(root: Path) -> InMemoryServer:
    """As ty: the stub is the module, and the file beside it knows itself only."""
    declared, stub, used = (
        {"uri": to_uri(root / name), "range": at(0, column, 0, column + 3)}
        for name, column in (("m.py", 4), ("m.pyi", 4), ("b.py", 14))
    )

    def places(params: Any) -> list[dict[str, Any]]:
        return [declared] if params["textDocument"]["uri"].endswith("/m.py") else [stub, used]

    server = InMemoryServer(kind("py", ".py", ".pyi"))
    server.answers = {
        "textDocument/references": places,
        "textDocument/rename": lambda params: {
            "changes": {
                place["uri"]: [{"range": place["range"], "newText": params["newName"]}]
                for place in places(params)
            }
        },
        "textDocument/documentSymbol": lambda params: [
            {"name": "old", "kind": 12, "range": at(0, 0, 0, 9), "selectionRange": at(0, 4, 0, 7)}
        ],
        "workspace/symbol": lambda params: [
            {"name": "old", "kind": 12, "location": place} for place in (stub, declared)
        ],
    }
    return server


@pytest.mark.parametrize("address", [{"symbol": "old"}, {"filePath": "m.pyi", "line": 1, "character": 5}])
async def test_a_symbol_of_a_stub_and_of_its_file_is_one(stubbed: Path, address: dict[str, object]) -> None:
    workplace = workplace_of(stubbed, stub_server(stubbed))
    answer = await references.call("lm_references", workplace, address, CONTEXT)
    assert lines_in(answer) == [("b.py", 1)]


async def test_a_rename_changes_the_stub_and_its_file(stubbed: Path) -> None:
    workplace = workplace_of(stubbed, stub_server(stubbed))
    await rename_symbol.call("lm_renameSymbol", workplace, {"symbol": "old", "newName": "new"}, CONTEXT)
    texts = {path.name: path.read_text() for path in stubbed.iterdir()}
    assert texts == {
        "m.py": "def new():\n    pass\n",
        "m.pyi": "def new() -> None: ...\n",
        "b.py": "from m import new\n",
    }


def lines_in(answer: ToolResult) -> list[tuple[str, int]]:
    assert answer.structured is not None
    return [
        (entry["workspacePath"].removeprefix("proj/"), entry["startLine"])
        for entry in answer.structured["references"]
    ]
