"""Sets and removes one table in the text of a TOML file, and keeps every other character. Pure.

A table with a header of its own is added and removed as lines of text. tomlkit changes what is written in
another form. A second parser checks each change, which must not lose a comment line outside of the table.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.client_setup.refusals import FormProblem
from lm_tools_bridge.text.syntax_problems import SyntaxProblem, toml_problem
from lm_tools_bridge.text.toml_text import check_editable, parse_toml

Problem = SyntaxProblem | FormProblem
_HEADER: Final = re.compile(r"[ \t]*\[")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_BY_HAND: Final = FormProblem("unsupported_form", "is written in a form that cannot be changed safely")


def value_at(text: str, path: Sequence[str]) -> Any | Problem:
    """The value at a path of keys; None if it is missing."""
    value = _parsed(text)
    for depth, key in enumerate(path):
        if isinstance(value, SyntaxProblem):
            return value
        if not isinstance(value, dict):
            return FormProblem("not_an_object", f"{'.'.join(path[:depth])} is not a table")
        if key not in value:
            return None
        value = value[key]
    return value


def with_table(text: str, path: Sequence[str], table: Mapping[str, Any]) -> str | Problem:
    """The text with a table at a path of keys; only values that differ change."""
    old = value_at(text, path)
    if isinstance(old, SyntaxProblem | FormProblem):
        return old
    expected = _with(tomllib.loads(text), path, table)
    if old is None:
        changed = _appended(text, path, table)
        if _says(changed, expected):
            return changed
    return _by_tomlkit(text, (expected,), lambda document: _put(document, path, table))


def with_appended(
    text: str, entries: Sequence[tuple[Sequence[str], Mapping[str, Any], Sequence[str]]]
) -> str | Problem:
    """The text with further tables in arrays of tables.

    Args:
        text: the text of a file.
        entries: the path of the array, the table, and the comment lines above it.
    """
    expected = _parsed(text)
    if isinstance(expected, SyntaxProblem):
        return expected
    changed = text
    for path, table, comments in entries:
        changed = _appended(changed, path, table, comments)
        if not _add(expected, path, table):
            return _BY_HAND
    return changed if _says(changed, expected) else _BY_HAND


def without_table(text: str, path: Sequence[str]) -> str | Problem:
    """The text without the table at a path of keys, which must exist."""
    old = value_at(text, path)
    if isinstance(old, SyntaxProblem | FormProblem):
        return old
    whole = tomllib.loads(text)
    expected = (_without(whole, path), _without(whole, path, prune=True))
    changed = _cut(text, path)
    if _says(changed, *expected):
        return changed
    return _by_tomlkit(text, expected, lambda document: _delete(document, path))


def _parsed(text: str) -> Any | SyntaxProblem:
    try:
        return parse_toml(text)
    except (ValueError, RecursionError) as error:  # ValueError: not TOML, or a number of too many digits
        return toml_problem(error, text)


def _appended(
    text: str, path: Sequence[str], table: Mapping[str, Any], comments: Sequence[str] | None = None
) -> str:
    """The text with a table at its end; with `comments`, one in an array of tables."""
    newline = "\r\n" if "\r\n" in text else "\n"
    header = f"[{'.'.join(map(_key, path))}]"
    lines = [
        *(comments or ()),
        header if comments is None else f"[{header}]",
        *(f"{_key(key)} = {_toml(value)}" for key, value in table.items()),
    ]
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return text + gap + newline.join(lines) + newline


def _add(value: Any, path: Sequence[str], table: Mapping[str, Any]) -> bool:
    """Append a table to the array at a path; returns whether there may be one."""
    for key in path[:-1]:
        value = value.setdefault(key, {})
        if not isinstance(value, dict):
            return False
    array = value.setdefault(path[-1], [])
    if isinstance(array, list):
        array.append(dict(table))
    return isinstance(array, list)


def _cut(text: str, path: Sequence[str]) -> str:
    """Drop the lines of a table and of those below it, but not the comments before the next header."""
    kept_lines: list[str] = []
    tail: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            was, inside = inside, _is_below(line, path)
            kept_lines += _after_table(tail, kept_lines, was and not inside)
            tail = []
        if not inside:
            kept_lines.append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            tail = []
        else:
            tail.append(line)
    kept_lines += [line for line in tail if line.strip()]
    if inside and not any(line.strip() for line in tail):
        while (
            kept_lines and not kept_lines[-1].strip()
        ):  # the blank line that parted the table from what was before it
            kept_lines.pop()
    return "".join(kept_lines)


def _after_table(tail: Sequence[str], kept_lines: Sequence[str], ends: bool) -> list[str]:
    """What stays of the comments and blank lines at the end of a dropped table."""
    if not ends:
        return [line for line in tail if line.strip()]
    lines = list(tail)
    while lines and not lines[0].strip() and (not kept_lines or not kept_lines[-1].strip()):
        lines.pop(0)
    return lines


def _is_below(header: str, path: Sequence[str]) -> bool:
    """Whether a header line names the table at a path, or one below it."""
    value = _parsed(header.strip() + "\n")
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _by_tomlkit(text: str, expected: Sequence[Any], change: Callable[[Any], None]) -> str | Problem:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        check_editable(text)
        document = tomlkit.parse(text)
        change(document)
        changed = tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError):
        return _BY_HAND
    lost = comments(text) - comments(changed)
    return changed if _says(changed, *expected) and not lost else _BY_HAND


def comments(text: str) -> Counter[str]:
    """The comment lines of a text."""
    return Counter(line.strip() for line in text.splitlines() if line.lstrip().startswith("#"))


def _put(document: Any, path: Sequence[str], table: Mapping[str, Any]) -> None:
    for key in path[:-1]:
        document = document.setdefault(key, {})
    if path[-1] in document:
        _update(document[path[-1]], table)
    else:
        document[path[-1]] = _inline(table)


def _update(old: Any, table: Mapping[str, Any]) -> None:
    """Make a table equal to another one, and leave the values that are equal already."""
    for key in [key for key in old if key not in table]:
        del old[key]
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            _update(old[key], value)
        elif key not in old or old[key] != value or isinstance(old[key], bool) != isinstance(value, bool):
            old[key] = _inline(value) if isinstance(value, dict) else value


def _inline(table: Mapping[str, Any]) -> Any:
    import tomlkit

    inline_table = tomlkit.inline_table()
    inline_table.update(
        {key: _inline(value) if isinstance(value, dict) else value for key, value in table.items()}
    )
    return inline_table


def _delete(document: Any, path: Sequence[str]) -> None:
    for key in path[:-1]:
        document = document[key]
    del document[path[-1]]


def _says(text: str, *expected: Any) -> bool:
    """Whether a text has one of these values."""
    value = _parsed(text)
    try:
        return not isinstance(value, SyntaxProblem) and value in expected
    except RecursionError:  # comparing goes deeper than parsing
        return False


def _with(value: Mapping[str, Any], path: Sequence[str], table: Mapping[str, Any]) -> dict[str, Any]:
    key, *below = path
    return {**value, key: _with(value.get(key, {}), below, table) if below else dict(table)}


def _without(value: Mapping[str, Any], path: Sequence[str], *, prune: bool = False) -> dict[str, Any]:
    """The value without what is at the path; `prune`: nor the tables that this leaves empty."""
    key, *rest = path
    below = _without(value[key], rest, prune=prune) if rest else {}
    remainder = {name: item for name, item in value.items() if name != key}
    return {**remainder, key: below} if rest and (below or not prune) else remainder


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml(key)


def _toml(value: Any) -> str:
    """A value as TOML in one line; strings as JSON writes them, which TOML reads in the same way."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
