"""Reads declarations that servers leave out of their symbols from the text of a file. Pure.

These are macros of C and C++, attributes that methods of Python set, what JavaScript assigns to exports,
prototypes and objects, and other names in lists of exports. Servers know their uses if they are asked at the
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

WrittenKind = Literal["constant", "function", "field", "method", "variable"]
_C_SUFFIXES: Final = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl", ".m", ".mm"}
    | {".cu", ".cuh"}
)
_PYTHON_SUFFIXES: Final = frozenset({".py", ".pyi"})
_SCRIPT_SUFFIXES: Final = frozenset({".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx"})
MAX_LINE: Final = 2_000
"""Characters of a line that are looked at: longer ones are generated, and declare nothing by hand."""


@dataclass(frozen=True, slots=True)
class WrittenDeclaration:
    """One declaration.

    Attributes:
        path: its name path: what it lies in, as far as the text tells, and its name.
        kind: one of `SYMBOL_KINDS`.
        line, column: where its name begins, from 1.
        last_line: where it ends.
    """

    path: tuple[str, ...]
    kind: WrittenKind
    line: int
    column: int
    last_line: int


def written_declarations(suffix: str, lines: Sequence[str]) -> list[WrittenDeclaration]:
    """The declarations in a file, in order, each once.

    Args:
        suffix: of the file, e.g. `.c`.
        lines: its text.
    """
    read = _READERS.get(suffix)
    declarations: dict[tuple[str, ...], WrittenDeclaration] = {}
    for declaration in read(lines) if read is not None else ():
        declarations.setdefault(declaration.path, declaration)
    return list(declarations.values())


def declaring_pattern(suffixes: frozenset[str], name: str) -> str:
    """A regular expression for lines that may declare a name in files with these suffixes; empty if none can.

    Args:
        suffixes: of a server's languages.
        name: an expression for the name.
    """
    patterns = []
    if suffixes & _C_SUFFIXES:
        patterns.append(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b")
    if suffixes & _PYTHON_SUFFIXES:
        patterns.append(rf"\bself\.{name}\b[^=]*=[^=]")
    if suffixes & _SCRIPT_SUFFIXES:
        patterns.append(rf"\b(?:exports|this|prototype|[\w$]+)\.{name}[ \t]*=[^=]|\bas[ \t]+{name}\b")
    return "|".join(patterns)


_DEFINE: Final = re.compile(r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\()?(.*)")
_GUARD: Final = re.compile(r"[ \t]*#[ \t]*(?:ifndef[ \t]+|if[ \t]+!\s*defined\s*\(?\s*)([A-Za-z_]\w*)")


def _macros(lines: Sequence[str]) -> Iterator[WrittenDeclaration]:
    guard = ""
    for number, line in enumerate(lines, 1):
        if "#" not in line:
            continue
        macro = _DEFINE.match(line[:MAX_LINE])
        if macro is None:
            test = _GUARD.match(line[:MAX_LINE])
            guard = test[1] if test is not None else ""
            continue
        # a file is guarded by a name without a value; an `#ifndef` before a value gives a default
        is_guard = macro[1] == guard and not macro[2] and not macro[3].strip()
        guard = ""
        if not is_guard:
            last = number
            while lines[last - 1].rstrip().endswith("\\") and last < len(lines):
                last += 1
            kind: WrittenKind = "function" if macro[2] else "constant"
            yield WrittenDeclaration((macro[1],), kind, number, macro.start(1) + 1, last)


_CLASS: Final = re.compile(r"([ \t]*)class[ \t]+(\w+)")
_ATTRIBUTE: Final = re.compile(r"(?<![\w.])self\.([A-Za-z_]\w*)(?=[ \t]*(?::[^=]*)?=(?![=}]))")
_ATTRIBUTES: Final = re.compile(r"[ \t(]*(?:[\w.*]+[ \t]*,[ \t]*)+[\w.*]+[ \t)]*=(?!=)")
_OF_SEVERAL: Final = re.compile(r"(?<![\w.])self\.([A-Za-z_]\w*)")


def _attributes(lines: Sequence[str]) -> Iterator[WrittenDeclaration]:
    classes: list[tuple[int, str]] = []  # those around the line, with their indentation
    for number, line in enumerate(lines, 1):
        text = line[:MAX_LINE]
        stripped = text.lstrip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        indentation = len(text) - len(stripped)
        if (header := _CLASS.match(text)) is not None:
            while classes and classes[-1][0] >= indentation:
                classes.pop()
            classes.append((indentation, header[2]))
        elif "self." in stripped:
            around = [name for depth, name in classes if depth < indentation]
            targets = _ATTRIBUTES.match(text)
            matches = _ATTRIBUTE.finditer(text) if targets is None else _OF_SEVERAL.finditer(targets[0])
            for attribute in matches if around else ():
                path = (*around, attribute[1])
                yield WrittenDeclaration(path, "field", number, attribute.start(1) + 1, number)
        elif stripped.startswith(("def ", "async def ")):
            # a function beside a class ends it
            while classes and classes[-1][0] >= indentation:
                classes.pop()


_ASSIGNMENT: Final = re.compile(r"(?<![\w$.\])])((?:[\w$]+\.)+)([A-Za-z_$][\w$]*)[ \t]*=(?![=>])[ \t]*")
_CALLABLE: Final = re.compile(r"(?:async\b[ \t]*)?(?:function\b|class\b|\([^()]*\)[ \t]*=>|[\w$]+[ \t]*=>)")
_OWNER: Final = re.compile(
    r"(?:export[ \t]+)?(?:default[ \t]+)?(?:async[ \t]+)?(?:function|class)[ \t*]+([\w$]+)"
    r"|(?:var|let|const)[ \t]+([\w$]+)[ \t]*=[ \t]*(?:function|class)\b"
    r"|(?:[\w$]+\.)*?([\w$]+)(?:\.prototype)?\.[\w$]+[ \t]*=[ \t]*(?:[\w$.]+[ \t]*=[ \t]*)*"
    r"(?:async\b[ \t]*)?function\b"
)


def _assignments(lines: Sequence[str]) -> Iterator[WrittenDeclaration]:
    owner: tuple[str, ...] = ()  # the function or class of the first level, which `this` belongs to
    for number, line in enumerate(lines, 1):
        text = line[:MAX_LINE]
        if text[:1] not in {" ", "\t", "}", ")", ""}:
            header = _OWNER.match(text)
            owner = (next(name for name in header.groups() if name),) if header is not None else ()
        if "=" not in text or text.lstrip().startswith(("//", "*", "/*")):
            continue
        for match in _ASSIGNMENT.finditer(text):
            value = text[_end_of_chain(text, match.end()) :]
            is_callable = _CALLABLE.match(value) is not None
            path = _property_path(match[1].split(".")[:-1], match[2], owner, is_callable=is_callable)
            if path:
                kind = _kind_of(match[1], is_callable=is_callable)
                yield WrittenDeclaration(path, kind, number, match.start(2) + 1, number)


_EXPORTED: Final = re.compile(r"\bas[ \t]+(?!default\b)([\w$]+)[ \t]*(?=[,}]|from\b|//|/\*|$)")
_EXPORT_LIST: Final = re.compile(r"[ \t]*export[ \t]*(?:type[ \t]*)?(?:\{|\*[ \t]*as\b)")


def _export_names(lines: Sequence[str]) -> Iterator[WrittenDeclaration]:
    """The names that lists of exports give to what has another name in its file."""
    is_in_list = False
    for number, line in enumerate(lines, 1):
        text = line[:MAX_LINE]
        begins = _EXPORT_LIST.match(text)
        is_in_list = is_in_list or begins is not None
        if is_in_list:
            for match in _EXPORTED.finditer(text):
                yield WrittenDeclaration((match[1],), "variable", number, match.start(1) + 1, number)
            is_in_list = "}" not in text and (begins is None or "{" in text)


def _script_names(lines: Sequence[str]) -> Iterator[WrittenDeclaration]:
    yield from _assignments(lines)
    yield from _export_names(lines)


def _end_of_chain(text: str, start: int) -> int:
    """Where the value begins that `a.b = c.d = value` gives to all of its targets."""
    while (match := _ASSIGNMENT.match(text, start)) is not None:
        start = match.end()
    return start


def _property_path(
    targets: Sequence[str], name: str, owner: tuple[str, ...], *, is_callable: bool
) -> tuple[str, ...]:
    """The name path of an assigned property; empty if the assignment declares nothing."""
    if targets in (["exports"], ["module", "exports"]):
        return (name,)
    if targets == ["module"] and name == "exports":
        return ()
    if targets[-1] == "prototype" and len(targets) > 1:
        return (targets[-2], name)
    if targets == ["this"]:
        return (*owner, name) if owner else ()
    return (targets[-1], name) if is_callable and targets[0] != "this" else ()


def _kind_of(target: str, *, is_callable: bool) -> WrittenKind:
    if target in {"exports.", "module.exports."}:
        return "function" if is_callable else "variable"
    return "method" if is_callable else "field"


_READERS: Final[Mapping[str, Callable[[Sequence[str]], Iterator[WrittenDeclaration]]]] = {
    **dict.fromkeys(_C_SUFFIXES, _macros),
    **dict.fromkeys(_PYTHON_SUFFIXES, _attributes),
    **dict.fromkeys(_SCRIPT_SUFFIXES, _script_names),
}
