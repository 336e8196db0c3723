"""Compares two definitions of one tool: what changed, and whether that is harmless. Pure.

Harmless is what tells a model nothing new and allows nothing more: other white space, words left out, fewer
choices, stricter annotations. All else is suspicious: a server that was trusted could otherwise give orders
to a model, ask it for more than the user agreed to, or call itself read-only and so escape approval.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from workspace_server.results import clean_text

_COMPARED: Final = ("title", "description", "inputSchema", "outputSchema", "annotations", "ui")
_TEXTS: Final = frozenset({"title", "description", "$comment"})
_LOWER: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
"""Limits that are stricter if they are lower."""
_HIGHER: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_STRICT: Final[Mapping[str, bool]] = {
    "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True,
}  # fmt: skip
"""The stricter value of each annotation, which also holds where it is missing (MCP 2025-11-25)."""
_CAUTIONS: Final = frozenset({
    "not", "no", "never", "none", "only", "must", "without", "unless", "except", "don't", "doesn't", "cannot",
    "can't", "ask", "confirm", "before", "warning", "danger", "dangerous",
})  # fmt: skip
"""Words that hold a model back: a text without them may say the opposite."""
_MAX_DEPTH: Final = 64
"""Of a schema; deeper ones are compared as a whole. Real schemas have less than 20 levels."""
_MAX_WORDS: Final = 2_000
"""Words of a text of which the difference is shown: the time grows with the square."""
_CONTEXT: Final = 5
"""Words that are shown before and after a change."""


class Change(NamedTuple):
    """One difference.

    Attributes:
        place: the member, such as `inputSchema.properties.note`.
        is_harmless: whether it may take effect without a question.
        text: what changed, in one line; not escaped.
    """

    place: str
    is_harmless: bool
    text: str


def compare(pinned: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """All differences that a model or a rule of approval could notice; none for icons and other `_meta`."""
    try:
        return list(_all_changes(_relevant(pinned), _relevant(now)))
    except RecursionError:  # nested so deeply that not even equality can be told
        return [Change("", False, "nested too deeply to be compared")]


def _all_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for member in _COMPARED:
        if member == "annotations":
            yield from _annotations(old.get(member), new.get(member))
        else:
            yield from _member(member, member, old.get(member), new.get(member), 0)


def new_tool(definition: Mapping[str, Any]) -> Change:
    """The difference between no tool and this one."""
    return Change(
        "", False, f"a new tool: {_shortened_value(clean_text(str(definition.get('description', ''))))}"
    )


def _relevant(definition: Mapping[str, Any]) -> dict[str, Any]:
    meta = definition.get("_meta")
    ui = meta.get("ui") if isinstance(meta, Mapping) else None
    return {**definition, "ui": ui}


def _member(place: str, name: str, old: Any, new: Any, depth: int) -> Iterator[Change]:
    if old == new and type(old) is type(new):
        return
    if depth > _MAX_DEPTH:
        yield _other(place, old, new)
    elif name in _TEXTS and all(value is None or isinstance(value, str) for value in (old, new)):
        yield from _text(place, old or "", new or "")
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _mapping(place, name, old, new, depth)
    elif name in ("enum", "type"):
        yield Change(place, _is_part(new, old), _values(old, new))
    elif name == "required":
        yield Change(place, _is_part(old, new) or _is_part(new, old), _values(old, new))
    elif name in _LOWER | _HIGHER:
        yield Change(place, _is_stricter(name, old, new), _values(old, new))
    elif name == "additionalProperties":
        yield Change(place, new is False, _values(old, new))
    else:
        yield _other(place, old, new)


def _mapping(
    place: str, name: str, old: Mapping[str, Any], new: Mapping[str, Any], depth: int
) -> Iterator[Change]:
    are_names = name in ("properties", "patternProperties", "$defs", "definitions")
    for key in dict.fromkeys([*old, *new]):
        there = f"{place}.{key}"
        if are_names and key not in new:
            yield Change(there, name != "patternProperties", "is gone")
        elif are_names and key not in old:
            yield Change(there, False, f"is new: {_shortened_value(new[key])}")
        else:
            # the key of a parameter is no keyword, even if it is called `description`
            yield from _member(there, "" if are_names else key, old.get(key), new.get(key), depth + 1)


def _text(place: str, old: str, new: str) -> Iterator[Change]:
    before, after = clean_text(old).split(), clean_text(new).split()
    if before == after:
        yield Change(place, True, "other white space")
        return
    yield Change(place, _only_leaves_out(before, after), " … ".join(word_difference(before, after)))


def _only_leaves_out(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether the new text is the old one without some words, none of which holds a model back."""
    # in the order of the old text: the same words in another order can say the opposite
    left, missing = iter(before), []
    for word in after:
        for candidate in left:
            if candidate == word:
                break
            missing.append(candidate)
        else:
            return False
    words = {word.strip(".,;:!?()[]\"'`*_").lower() for word in (*missing, *left)}
    return not words & _CAUTIONS


def word_difference(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The changed words as `[-old-]{+new+}`, with some words around them."""
    if max(len(before), len(after)) > _MAX_WORDS:
        yield f"{len(before)} words became {len(after)}; too long to show the difference"
        return
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        parts = []
        for tag, i, j, k, n in group:
            if tag == "equal":
                parts.append(" ".join(before[i:j]))
                continue
            gone = f"[-{' '.join(before[i:j])}-]" if i < j else ""
            added = f"{{+{' '.join(after[k:n])}+}}" if k < n else ""
            parts.append(gone + added)
        yield " ".join(parts)


def _annotations(old: Any, new: Any) -> Iterator[Change]:
    before = old if isinstance(old, Mapping) else {}
    after = new if isinstance(new, Mapping) else {}
    for key in dict.fromkeys([*before, *after]):
        place = f"annotations.{key}"
        if key not in _STRICT:
            yield from _member(place, key, before.get(key), after.get(key), 0)
            continue
        was, now = _hint(before, key), _hint(after, key)
        if was is not now:
            text = f"{json.dumps(was)} became {json.dumps(now)}"
            yield Change(place, now is _STRICT[key], text)


def _hint(annotations: Mapping[str, Any], key: str) -> bool:
    """What an annotation says; the stricter value if it is no truth value."""
    value = annotations.get(key)
    return value if isinstance(value, bool) else _STRICT[key]


def _is_part(part: Any, whole: Any) -> bool:
    if whole is None:  # nothing was said, so everything was allowed
        return True
    parts, all_parts = _as_list(part), _as_list(whole)
    return part is not None and all(entry in all_parts for entry in parts)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_stricter(name: str, old: Any, new: Any) -> bool:
    if isinstance(new, bool) or not isinstance(new, int | float):
        return False
    if old is None:
        return True
    if isinstance(old, bool) or not isinstance(old, int | float):
        return False
    return new < old if name in _LOWER else new > old


def _other(place: str, old: Any, new: Any) -> Change:
    return Change(place, False, _values(old, new))


def _values(old: Any, new: Any) -> str:
    was = "nothing" if old is None else _shortened_value(old)
    now = "nothing" if new is None else _shortened_value(new)
    return f"{was} became {now}"


_MAX_SHOWN: Final = 300
"""Characters of a value in a line; the whole of it decides, and is part of what the user accepts."""


def _shortened_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"
