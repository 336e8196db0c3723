"""Tells places that only declare a symbol from those that define it, by the text around its name. Pure.

Servers mix them up: clangd gives a declaration where it knows no definition, and for each of the two the
other one; servers of Python and TypeScript call a stub the definition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, Literal

from lm_tools_bridge.code_intelligence.wire.positions import Position

Role = Literal["definition", "declaration"]
_C_FAMILY: Final = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp", ".tpp"}
    | {".m", ".mm", ".cu", ".cuh"}
)
MAX_LINES: Final = 200
"""So many lines are read behind a name; a list of parameters is shorter."""
_SKIPPED: Final = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE
)
_NAME: Final = re.compile(r"operator\s*(?:\(\s*\)|[^\w\s(]+|\w+)(?=\s*\()|~?\w+")
_TYPE_WORD: Final = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:[A-Z][A-Z\d_]{2,}\s+|\[\[.*\]\]\s*)*(?:\w+::)*$"
)
"""What introduces a type: words in capitals are macros, such as those that export it."""
_DEFINED: Final = re.compile(r"=\s*(?:default|delete)\b")
_EXTERN: Final = re.compile(r"\bextern\b")
_AMBIENT: Final = re.compile(r"\b(?:function|const|let|var|class|namespace|module)\s+$")
_TYPESCRIPT_STUB: Final = re.compile(r"\.d(?:\.\w+)?\.[cm]?ts\Z")


def tells_apart(path: PurePath) -> bool:
    """Whether a language has declarations beside definitions in files of their own."""
    return path.suffix in _C_FAMILY


def role_of(
    path: PurePath, lines: Sequence[str] | None, name: Position, *, is_value: bool = False
) -> Role | None:
    """Whether a symbol is defined or only declared at a place; None if that cannot be told.

    Args:
        path: the file.
        lines: its text; None if unknown.
        name: where the symbol's name begins.
        is_value: whether it is known to be a variable: parentheses behind it are no parameters then.
    """
    if path.suffix == ".pyi":
        return "declaration"
    if lines is None or name.line > len(lines):
        return None
    before = lines[name.line - 1][: name.column - 1]
    if _TYPESCRIPT_STUB.search(path.name):
        return "declaration" if _AMBIENT.search(before) is not None else None
    if path.suffix not in _C_FAMILY:
        return None
    rest = "\n".join([lines[name.line - 1][name.column - 1 :], *lines[name.line : name.line - 1 + MAX_LINES]])
    return _role_in_c(_statement_before(lines, name), _SKIPPED.sub(" ", rest), is_value=is_value)


def _statement_before(lines: Sequence[str], name: Position) -> str:
    """The words of the statement before a name, which may begin some lines above."""
    above = [*lines[max(0, name.line - 6) : name.line - 1], lines[name.line - 1][: name.column - 1]]
    return re.split(r"[;{}]", _SKIPPED.sub(" ", "\n".join(above)))[-1]


def _role_in_c(before: str, rest: str, *, is_value: bool) -> Role | None:
    name = _NAME.match(rest)
    end, has_parameters, is_set = _end_of(rest[name.end() :] if name else rest)
    if end == "{" or (end == ";" and is_set):
        return "definition"
    if end != ";":
        return None
    declares = has_parameters and not is_value
    declares = declares or _TYPE_WORD.search(before) is not None  # `struct S;`
    return "declaration" if declares or _EXTERN.search(before) is not None else None


def _end_of(text: str) -> tuple[str, bool, bool]:
    """What ends a declaration behind its name, whether it has parameters, and whether it is given a value."""
    depth, has_parameters, is_set = 0, False, False
    for at, char in enumerate(text):
        if char in "([":
            has_parameters = has_parameters or (char == "(" and not is_set and depth == 0)
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth < 0:  # the name is a parameter
            return "", False, False
        elif depth == 0 and char in "{;":
            return char, has_parameters, is_set
        elif depth == 0 and char == "=" and not is_set:
            # `= 0` makes a function that has no body
            is_set = not has_parameters or _DEFINED.match(text, at) is not None
    return "", has_parameters, is_set
