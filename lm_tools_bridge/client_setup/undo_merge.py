"""Takes a change of a file back where other programs changed the file since, and keeps what they wrote. Pure.

Clients write counters and histories into the files that have their servers, so a file is rarely what we left.
The lines of our change are taken back where nobody else changed those lines; that keeps comments, order and
indentation. A file that was written anew as a whole gets the members back one by one. The result is parsed:
what we changed is as it was, and all else as it is now.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lm_tools_bridge.client_setup.change import BOM, FileFormat, decoded, refused, value_at
from lm_tools_bridge.client_setup.editing import jsonc_edit, toml_edit
from lm_tools_bridge.client_setup.refusals import FormProblem, Refusal
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

_Problem: TypeAlias = SyntaxProblem | FormProblem
_Path: TypeAlias = tuple[str, ...]
_Hunk: TypeAlias = tuple[int, int, list[str]]
"""The first line, the line behind the last one, and what stands there instead."""


class _Missing:
    """The value of a member that is not there; None is a value of JSON."""


_MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class _Conflict(Exception):
    """Somebody else changed what we changed, too."""

    path: _Path


def undone(
    before: bytes | None, after: bytes, now: bytes, form: FileFormat, file: str
) -> bytes | Refusal | None:
    """The content of a file without our change of it.

    Args:
        before, after: its content before and after our change; None without a file.
        now: its content now, with changes by others.
        form: how it is written.
        file: its name for messages.

    Returns:
        The new content; None if nothing is left of a file that we made; `changed_since` if somebody else
        changed a member that we changed.
    """
    texts = [decoded(content or b"", file) for content in (before, after, now)]
    values = [text if isinstance(text, Refusal) else _value(text, form, file) for text in texts]
    for value in (*texts, *values):
        if isinstance(value, Refusal):
            return value
    old, ours, theirs = values
    try:
        expected = _taken_back(old, ours, theirs, ())
    except _Conflict as conflict:
        text = f"{file}: somebody else changed {'.'.join(conflict.path) or 'all of it'} since"
        return Refusal("changed_since", text, "edit the file by hand")
    changed = _merged(texts, {} if isinstance(expected, _Missing) else expected, form)
    if changed is None:
        text = f"{file} was changed since in the same place"
        return Refusal("changed_since", text, "edit the file by hand")
    if before is None and "".join(changed.split()) in ("", "{}"):
        return None
    return (BOM if now.startswith(BOM) else b"") + changed.encode()


def _value(text: str, form: FileFormat, file: str) -> Any:
    value = value_at(text, form, ())
    if isinstance(value, SyntaxProblem | FormProblem):
        return refused(value, file)
    return {} if value is None else value


def _taken_back(before: Any, after: Any, now: Any, path: _Path) -> Any:
    """What is now, with what we changed as it was.

    Raises:
        _Conflict: what we changed is neither what we wrote nor what was there before.
    """
    if after in (before, now) or now == before:
        return now if after == before else before
    if _has_members(before, after, now):
        return _members_taken_back(_members(before), after, _members(now), path, before)
    if isinstance(after, list) and isinstance(before, list | _Missing) and isinstance(now, list):
        return _entries_taken_back([] if isinstance(before, _Missing) else before, after, now, path)
    if isinstance(now, _Missing) and isinstance(before, _Missing):
        return now
    raise _Conflict(path)


def _has_members(before: Any, after: Any, now: Any) -> bool:
    """Whether to compare member by member: objects of entries are, an entry that we added is not."""
    if not isinstance(after, dict) or not isinstance(now, dict | _Missing):
        return False
    if isinstance(before, _Missing):
        return all(isinstance(value, dict | list) for value in (*after.values(), *_members(now).values()))
    return isinstance(before, dict)


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _members_taken_back(
    before: Mapping[str, Any], after: Mapping[str, Any], now: Mapping[str, Any], path: _Path, whole: Any
) -> Any:
    members = dict(now)
    for name in (*after, *(name for name in before if name not in after)):
        old, ours, theirs = (values.get(name, _MISSING) for values in (before, after, now))
        if old == ours:
            continue
        value = _taken_back(old, ours, theirs, (*path, name))
        if isinstance(value, _Missing):
            members.pop(name, None)
        else:
            members[name] = value
    return _MISSING if not members and isinstance(whole, _Missing) else members


def _entries_taken_back(before: list[Any], after: list[Any], now: list[Any], path: _Path) -> list[Any]:
    """A list without the entries that we added, and with those that we took away at its end."""
    entries = list(now)
    for entry in after:
        if entry not in before:
            if entry not in entries:
                raise _Conflict(path)
            entries.remove(entry)
    return [*entries, *(entry for entry in before if entry not in after)]


def _merged(texts: Sequence[Any], expected: Any, form: FileFormat) -> str | None:
    """A text that says what is expected: by lines, else by members; None if neither can."""
    before, after, now = texts
    by_lines = _by_lines(before, after, now)
    if by_lines is not None and _says(by_lines, form, expected):
        return by_lines
    by_members: str = now
    for path, value in _differences(value_at(now, form, ()) or {}, expected, ()):
        changed = _with(by_members, form, path, value)
        if not isinstance(changed, str):
            return None
        by_members = changed
    return by_members if _says(by_members, form, expected) else None


def _says(text: str, form: FileFormat, expected: Any) -> bool:
    value = value_at(text, form, ())
    return bool((value or {}) == expected)


def _by_lines(before: str, after: str, now: str) -> str | None:
    """The lines of now, with those that we changed as they were; None if others changed the same lines."""
    lines = after.splitlines(keepends=True)
    hunks = sorted(
        (*_hunks(lines, before.splitlines(keepends=True)), *_hunks(lines, now.splitlines(keepends=True))),
        key=lambda hunk: hunk[:2],
    )
    result: list[str] = []
    at = 0
    for start, end, replacement in hunks:
        if start < at:
            return None
        result += [*lines[at:start], *replacement]
        at = end
    return "".join([*result, *lines[at:]])


def _hunks(old: list[str], new: list[str]) -> Iterator[_Hunk]:
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            yield start, end, new[first:last]


def _differences(now: Any, expected: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    """The members that differ, and what they shall be."""
    for name in (*now, *(name for name in expected if name not in now)):
        is_, shall = now.get(name, _MISSING), expected.get(name, _MISSING)
        if is_ == shall:
            continue
        if isinstance(is_, dict) and isinstance(shall, dict):
            yield from _differences(is_, shall, (*path, name))
        else:
            yield (*path, name), shall


def _with(text: str, form: FileFormat, path: _Path, value: Any) -> str | _Problem:
    """The text with a member, or without it. YAML and arrays of TOML are only changed by lines."""
    if form.yaml is not None or (form.dialect is None and not isinstance(value, dict | _Missing)):
        return FormProblem("unsupported_form", "this member is only changed by lines")
    if form.dialect is None:
        is_gone = isinstance(value, _Missing)
        return toml_edit.without_table(text, path) if is_gone else toml_edit.with_table(text, path, value)
    if isinstance(value, _Missing):
        return jsonc_edit.without_member(text, path, form.dialect)
    return jsonc_edit.with_member(text, path, value, form.dialect)
