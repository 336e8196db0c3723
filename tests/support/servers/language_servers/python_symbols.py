"""A language server in memory that knows a little Python: outlines by its grammar, uses by words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.wire.document_uris import to_path, to_uri
from support.servers.language_servers.in_memory import InMemoryServer, at, kind

KINDS: dict[type[ast.AST], int] = {ast.ClassDef: 5, ast.FunctionDef: 12}


def python_server(root: Path, name: str = "py", **members: Any) -> InMemoryServer:
    """A server for the Python files below `root`, whose names are ASCII."""
    server = InMemoryServer(kind(name, ".py", **members))
    server.answers = {
        "textDocument/documentSymbol": lambda params: symbols(file_of(params)),
        "workspace/symbol": lambda params: [
            one for one in found(root) if params["query"].lower() in one["name"].lower()
        ],
        "textDocument/references": lambda params: list(
            uses(root, word_at(params), declarations=params["context"]["includeDeclaration"])
        ),
        "textDocument/definition": lambda params: [
            one["location"] for one in found(root) if one["name"] == word_at(params)
        ][:1],
        "textDocument/hover": lambda params: {
            "contents": {"kind": "markdown", "value": f"**{word_at(params)}**"}
        },
        "textDocument/rename": lambda params: renamed(root, word_at(params), params["newName"]),
    }
    return server


def file_of(params: Any) -> Path:
    path = to_path(params["textDocument"]["uri"], Path)
    assert path is not None
    return path


def word_at(params: Any) -> str:
    """The identifier at a position."""
    where = params["position"]
    line = file_of(params).read_text().split("\n")[where["line"]]
    return next(
        (one[0] for one in re.finditer(r"\w+", line) if one.start() <= where["character"] <= one.end()), ""
    )


def symbols(path: Path) -> list[dict[str, Any]]:
    """The `DocumentSymbol` tree of a file."""
    return [_symbol(node, path) for node in _declared(ast.parse(path.read_text()))]


def _declared(node: ast.AST) -> Iterator[Any]:
    return (one for one in ast.iter_child_nodes(node) if type(one) in KINDS)


def _symbol(node: Any, path: Path, *, inner: bool = False) -> dict[str, Any]:
    start = node.lineno - 1
    line = path.read_text().split("\n")[start]
    column = line.index(node.name, node.col_offset)
    number = 6 if inner and isinstance(node, ast.FunctionDef) else KINDS[type(node)]
    return {
        "name": node.name,
        "kind": number,
        "range": at(start, node.col_offset, node.end_lineno - 1, node.end_col_offset),
        "selectionRange": at(start, column, start, column + len(node.name)),
        "children": [_symbol(one, path, inner=isinstance(node, ast.ClassDef)) for one in _declared(node)],
    }


def found(root: Path) -> list[dict[str, Any]]:
    """`SymbolInformation` of all files."""
    listed = []
    for path in sorted(root.rglob("*.py")):
        waiting = [(one, "") for one in symbols(path)]
        while waiting:
            one, container = waiting.pop(0)
            location = {"uri": to_uri(path), "range": one["selectionRange"]}
            listed.append({
                "name": one["name"], "kind": one["kind"], "location": location, "containerName": container
            })  # fmt: skip
            waiting += [(child, one["name"]) for child in one["children"]]
    return listed


def uses(root: Path, word: str, *, declarations: bool = False) -> Iterator[dict[str, Any]]:
    """The `Location` of each use of a word; of imports, assignments and declarations with these only, as of ty."""
    binds = re.compile(rf"\s*(?:def|class|import|from)\b|.*\b{word}\s*=[^=]")
    for path in sorted(root.rglob("*.py")):
        for number, line in enumerate(path.read_text().split("\n")):
            if declarations or not binds.match(line):
                for one in re.finditer(rf"\b{word}\b", line):
                    yield {"uri": to_uri(path), "range": at(number, one.start(), number, one.end())}


def renamed(root: Path, word: str, new: str) -> dict[str, Any]:
    """The `WorkspaceEdit` that renames a word everywhere."""
    changes: dict[str, list[Any]] = {}
    for path in sorted(root.rglob("*.py")):
        for number, line in enumerate(path.read_text().split("\n")):
            for one in re.finditer(rf"\b{word}\b", line):
                edit = {"range": at(number, one.start(), number, one.end()), "newText": new}
                changes.setdefault(to_uri(path), []).append(edit)
    return {"changes": changes}
