"""Finds the strings in `__all__` that name a renamed symbol of Python, which defines them as references.

Most servers leave them out of a rename, and then `from module import *` fails.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.wire.positions import Position, Span

MAX_FILE: Final = 2_000_000
"""Characters of a file that is parsed, which takes about a second; larger ones are generated."""
PYTHON: Final = frozenset({".py", ".pyi"})
_ALL: Final = "__all__"


@dataclass(frozen=True, slots=True)
class PythonModule:
    """What one file says of a name.

    Attributes:
        path: the file.
        bound: the lines, from 1, on which the module itself defines, assigns or imports the name.
        starred: the modules from which it imports all, as written, with one dot for each level.
        listed_spans: where `__all__` names it, without the quotes.
    """

    path: Path
    bound: frozenset[int]
    starred: Sequence[str]
    listed_spans: Sequence[Span]


def read_module(path: Path, lines: Sequence[str], name: str) -> PythonModule | None:
    """What a file says of a name; None if it is no valid Python. Pure."""
    text = "\n".join(lines)
    if len(text) > MAX_FILE:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    statements = list(_statements(tree.body))
    return PythonModule(
        path,
        frozenset(line for statement in statements for line in _bound(statement, name)),
        [module for statement in statements for module in _starred(statement)],
        [span for statement in statements for span in _find_listed_spans(statement, name, lines)],
    )


def exported_spans(
    modules: Sequence[PythonModule], changed_lines: Mapping[Path, frozenset[int]]
) -> list[tuple[Path, Span]]:
    """Where `__all__` names the symbol, in the modules that have it. Pure.

    A module has it if a change of the rename is on a line that binds the name, or if it imports all from
    a module that has it.

    Args:
        modules: the files that may have it.
        changed_lines: those on which the rename changes each file, from 1.
    """
    having = {module.path for module in modules if module.bound & changed_lines.get(module.path, frozenset())}
    rest = [module for module in modules if module.path not in having and not module.bound]
    while new := [module for module in rest if _takes_from(module, having)]:
        having |= {module.path for module in new}
        rest = [module for module in rest if module.path not in having]
    return [
        (module.path, span) for module in modules if module.path in having for span in module.listed_spans
    ]


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those in conditions, loops and `try` included."""
    waiting: list[ast.stmt] = list(body)
    while waiting:
        statement = waiting.pop(0)
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.stmt):
                    waiting.append(child)
                elif isinstance(child, ast.ExceptHandler | ast.match_case):
                    waiting.extend(child.body)


def _bound(statement: ast.stmt, name: str) -> Iterator[int]:
    """The lines of a statement that bind a name."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if statement.name == name:
            yield statement.lineno  # that of the name, not of a decorator
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.lineno for alias in statement.names if (alias.asname or alias.name) == name)
    else:
        targets = [node for node in _expressions(statement) if isinstance(node, ast.Name) and node.id == name]
        yield from (node.lineno for node in targets if isinstance(node.ctx, ast.Store))


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement consists of, without statements in it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from ast.walk(child)


def _starred(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.ImportFrom) and any(alias.name == "*" for alias in statement.names):
        yield "." * statement.level + (statement.module or "")


def _find_listed_spans(statement: ast.stmt, name: str, lines: Sequence[str]) -> Iterator[Span]:
    """The strings of a name in `__all__ = […]`, `__all__ += […]`, `__all__.extend(…)` and the like."""
    if not any(isinstance(node, ast.Name) and node.id == _ALL for node in _expressions(statement)):
        return
    for node in _expressions(statement):
        if isinstance(node, ast.Constant) and node.value == name:
            span = _inside_quotes(node, name, lines)
            if span is not None:
                yield span


def _inside_quotes(node: ast.Constant, name: str, lines: Sequence[str]) -> Span | None:
    """The place of the name in a string; None if the string is written in parts, or with escapes."""
    line = lines[node.lineno - 1]
    start = len(line.encode()[: node.col_offset].decode(errors="replace"))
    match = re.compile(rf"[uU]?(?:'{re.escape(name)}'|\"{re.escape(name)}\")").match(line, start)
    if match is None:
        return None
    end = match.end()
    return Span(Position(node.lineno, end - len(name)), Position(node.lineno, end))


def _takes_from(module: PythonModule, having: set[Path]) -> bool:
    return any(_leads_to(starred, module.path, path) for starred in module.starred for path in having)


def _leads_to(written: str, importer: Path, path: Path) -> bool:
    """Whether a module as an import names it can be a file."""
    name = written.lstrip(".")
    parts = [part for part in name.split(".") if part]
    own = list(path.with_suffix("").parts)
    if own[-1] == "__init__":
        own.pop()
    if level := len(written) - len(name):
        folder = importer.parents[level - 1] if level <= len(importer.parents) else importer.parent
        return os.path.normpath(folder.joinpath(*parts)) == os.path.normpath(Path(*own))
    return bool(parts) and own[-len(parts) :] == parts
