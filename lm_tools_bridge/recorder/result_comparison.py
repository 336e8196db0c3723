"""Compares a recorded result with a new one, member by member. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec

MOST_LINES: Final = 12
"""Lines of a text's difference that are shown."""
MOST_TEXT: Final = 120  # characters: a value stays on one or two lines of a terminal
_NOT_COMPARED: Final = frozenset({"_meta", "resultType"})
"""Members of a result that say how it travelled, not what it is."""
_ABSENT: Final = object()


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """One place where two results differ.

    Attributes:
        pointer: the place (JSON Pointer, RFC 6901).
        kind: `changed`, `added` or `removed`.
        before, after: the values; None where there is none.
    """

    pointer: str
    kind: str
    before: Any = None
    after: Any = None

    def lines(self) -> list[str]:
        """The difference for people."""
        place = self.pointer or "/"
        if self.kind == "added":
            return [f"+ {place}: {_short(self.after)}"]
        if self.kind == "removed":
            return [f"- {place}: {_short(self.before)}"]
        texts = isinstance(self.before, str) and isinstance(self.after, str)
        if texts and ("\n" in self.before or "\n" in self.after):
            return [f"~ {place}:", *_text_lines(self.before, self.after)]
        return [f"~ {place}: {_short(self.before)} → {_short(self.after)}"]


def differences(before: Any, after: Any, ignored: Collection[str] = ()) -> list[Difference]:
    """Where two results differ.

    A text that is JSON in both is compared by its members. Members of the envelope are not compared.

    Args:
        ignored: places that are not compared, nor what is below them; `*` stands for any one member.
    """
    rules = [tuple(pointer.strip("/").split("/")) for pointer in ignored]
    return list(_differences(_content(before), _content(after), (), rules))


def _content(result: Any) -> Any:
    if not isinstance(result, dict):
        return result
    members = {key: value for key, value in result.items() if key not in _NOT_COMPARED and value is not None}
    if members.get("isError") is False:
        del members["isError"]
    return members


def _differences(
    before: Any, after: Any, path: tuple[str, ...], ignored: list[tuple[str, ...]]
) -> Iterator[Difference]:
    if any(_is_ignored(path, rule) for rule in ignored):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*before, *(key for key in after if key not in before)):
            inner = (*path, str(key))
            yield from _differences(before.get(key, _ABSENT), after.get(key, _ABSENT), inner, ignored)
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            old = before[number] if number < len(before) else _ABSENT
            new = after[number] if number < len(after) else _ABSENT
            yield from _differences(old, new, (*path, str(number)), ignored)
    elif (parsed := _both_json(before, after)) is not None:
        yield from _differences(*parsed, path, ignored)
    elif before is _ABSENT:
        yield Difference(_pointer(path), "added", None, after)
    elif after is _ABSENT:
        yield Difference(_pointer(path), "removed", before, None)
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):  # 1 is 1.0, but not true
        yield Difference(_pointer(path), "changed", before, after)


def _both_json(before: Any, after: Any) -> tuple[Any, Any] | None:
    """Two different texts as JSON objects or arrays; None if they are something else."""
    if not (isinstance(before, str) and isinstance(after, str)) or before == after:
        return None
    found = []
    for text in (before, after):
        if not text.lstrip().startswith(("{", "[")):
            return None
        try:
            found.append(json.loads(text))
        except (ValueError, RecursionError):
            return None
    return found[0], found[1]


def _is_ignored(path: tuple[str, ...], rule: tuple[str, ...]) -> bool:
    return len(path) == len(rule) and all(want in ("*", own) for own, want in zip(path, rule, strict=True))


def _pointer(path: tuple[str, ...]) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def _text_lines(before: str, after: str) -> list[str]:
    changed = [
        line
        for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    shown = [f"    {line[:MOST_TEXT]}" for line in changed[:MOST_LINES]]
    return [*shown, f"    … {len(changed) - MOST_LINES} more lines"] if len(changed) > MOST_LINES else shown
