"""`lm_editSymbol`: a whole symbol is replaced, text is inserted beside it, or it is deleted if nothing uses it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.tools.editing import edit_symbol
from lm_tools_bridge.code_intelligence.tools.editing.edit_symbol import fitted, planned_edit
from lm_tools_bridge.code_intelligence.wire.positions import Position, Span
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import CONTEXT, InMemoryServer, workplace_of
from support.servers.language_servers.python_symbols import python_server
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

A = """\
class Stack:
    def push(self, x):
        return x

    def pop(self):
        return 1


def helper(s):
    s.push(2)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", {"src/a.py": A})


@pytest.fixture
def server(root: Path) -> InMemoryServer:
    return python_server(root)


async def edit(root: Path, server: InMemoryServer, **arguments: Any) -> ToolResult:
    return await edit_symbol.call("lm_editSymbol", workplace_of(root, server), arguments, CONTEXT)


@pytest.mark.parametrize(
    "text",
    [
        "def pop(self):\n    return 2",
        "    def pop(self):\n        return 2\n",
        "def pop(self):\n        return 2\n",
    ],
)
async def test_a_symbol_is_replaced_with_the_indentation_of_its_place(
    root: Path, server: InMemoryServer, text: str
) -> None:
    result = await edit(root, server, symbol="Stack/pop", action="replace", text=text)
    assert (root / "src/a.py").read_text() == A.replace("return 1", "return 2")
    assert "-        return 1\n+        return 2" in result.text


async def test_apply_false_only_shows_the_change(root: Path, server: InMemoryServer) -> None:
    result = await edit(
        root, server, symbol="helper", action="replace", text="def helper(s): pass", apply=False
    )
    assert (root / "src/a.py").read_text() == A
    assert "+def helper(s): pass" in result.text


async def test_what_is_inserted_keeps_the_blank_lines_between_declarations(
    root: Path, server: InMemoryServer
) -> None:
    await edit(root, server, symbol="Stack/pop", action="before", text="def top(self):\n    return 0")
    await edit(root, server, symbol="helper", action="after", text="def other():\n    pass")
    assert (root / "src/a.py").read_text() == A.replace(
        "    def pop", "    def top(self):\n        return 0\n\n    def pop"
    ) + "\n\ndef other():\n    pass\n"


async def test_what_nothing_uses_is_deleted(root: Path, server: InMemoryServer) -> None:
    await edit(root, server, symbol="Stack/pop", action="delete")
    assert "pop" not in (root / "src/a.py").read_text()
    assert "\n\n\ndef helper(s):" not in (root / "src/a.py").read_text()


async def test_what_is_used_is_not_deleted_and_the_uses_are_named(root: Path, server: InMemoryServer) -> None:
    with pytest.raises(ToolError, match=r"method Stack/push is used once: proj/src/a.py#10"):
        await edit(root, server, symbol="Stack/push", action="delete")
    assert (root / "src/a.py").read_text() == A


async def test_nothing_is_deleted_while_not_all_uses_are_known(root: Path, server: InMemoryServer) -> None:
    server = replace(server, state=Freshness("py", "indexing", "it still reads the project"))
    with pytest.raises(ToolError, match=r"there may be some .*it still reads the project"):
        await edit(root, server, symbol="Stack/pop", action="delete", waitS=0)
    assert (root / "src/a.py").read_text() == A


async def test_a_text_is_needed_and_a_symbol(root: Path, server: InMemoryServer) -> None:
    with pytest.raises(InvalidArguments, match="/text"):
        await edit(root, server, symbol="Stack/pop", action="replace", text=" ")
    with pytest.raises(ToolError, match="no symbol is declared at this place"):
        await edit(root, server, filePath="src/a.py", line=3, character=9, action="delete")


@pytest.mark.parametrize(
    ("text", "indentation", "result"),
    [
        ("void f() {\n  x;\n}", "    ", "    void f() {\n      x;\n    }"),
        ("void f() {\n        x;\n    }", "    ", "    void f() {\n        x;\n    }"),
        ("\n\tvoid f() {\n\t\tx;\n\t}\n", "\t", "\tvoid f() {\n\t\tx;\n\t}"),
        ("x = 1", "", "x = 1"),
        ("def f():\n    a\n\n    b", "    ", "    def f():\n        a\n\n        b"),
    ],
)
def test_texts_get_the_indentation_of_their_place_once(text: str, indentation: str, result: str) -> None:
    assert fitted(text, indentation) == result


def span(line: int, column: int, end_line: int, end_column: int) -> Span:
    return Span(Position(line, column), Position(end_line, end_column))


@pytest.mark.parametrize(
    ("lines", "whole", "action", "text", "expected"),
    [
        # a server that begins the range at the name
        (["export const a = 1;"], span(1, 14, 1, 19), "replace", "export const a = 2;", (span(1, 1, 1, 20), "export const a = 2;")),
        (["type T struct {", "}"], span(1, 6, 2, 2), "replace", "type T int", (span(1, 1, 2, 2), "type T int")),
        # decorators belong to what they stand above
        (["@cache", "def f(): ..."], span(2, 1, 2, 13), "before", "x = 1", (span(1, 1, 1, 1), "x = 1\n")),
        (["@cache", "def f(): ..."], span(2, 1, 2, 13), "delete", "", (span(1, 1, 2, 13), "")),
        (["@cache", "def f(): ..."], span(2, 1, 2, 13), "replace", "@once\ndef f(): 1", (span(1, 1, 2, 13), "@once\ndef f(): 1")),
        # what else stands in the line stays
        (["f(a => 1, b)", ""], span(1, 3, 1, 9), "delete", "", (span(1, 3, 1, 9), "")),
    ],
)  # fmt: skip
def test_a_declaration_is_taken_whole(
    lines: list[str], whole: Span, action: str, text: str, expected: tuple[Span, str]
) -> None:
    assert planned_edit(lines, whole, action, text) == expected
