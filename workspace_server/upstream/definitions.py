"""From what a foreign server lists to tools of ours. Pure.

Members we know nothing of stay; texts that models and terminals see are cleaned (T-17). Whether a schema
can be served is judged where lists are checked (`listing.py`); the names tools are offered by are made in
`naming.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import msgspec

from protocol import jsonrpc
from protocol.issues import Issue
from workspace_server.results import clean_text
from workspace_server.source import Tool, Visibility

MAX_NAME: Final = 256
_TEXTS: Final = frozenset({"title", "description"})
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Members of a schema whose content is data, not text for a reader."""
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Members of a schema whose keys are somebody's own names."""
_SUSPECT: Final = re.compile(rb"[\x7f-\xff]|\\[ubfr]")
"""Without one of these in its JSON a text needs no cleaning."""


@dataclass(frozen=True, slots=True)
class Definitions:
    """The tools of one list.

    Attributes:
        tools: in the order of the list, under cleaned names.
        originals: the server's own name of each tool.
        hashes: of each tool's whole definition as it came.
        issues: what was left out.
    """

    tools: tuple[Tool, ...] = ()
    originals: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()


def read(
    entries: Sequence[msgspec.Raw],
    source: str,
    *,
    visibility: Visibility = "native",
    visibilities: Mapping[str, Visibility] | None = None,
    timeout_s: float | None = None,
) -> Definitions:
    """The tools of a list; never raises, whatever the entries are (T-11, T-17).

    Args:
        entries: each a tool object as JSON text.
        source: id of the source, for issues.
        visibility: of all its tools; `visibilities` of single ones, by the server's own names (T-32).
        timeout_s: the longest one call may take.
    """
    tools: dict[str, Tool] = {}
    originals: dict[str, str] = {}
    hashes: dict[str, str] = {}
    issues: list[Issue] = []
    details = f"source {source}"
    for place, entry in enumerate(entries, 1):
        definition = _decode(entry)
        name = _name(definition)
        if name is None:
            text = f"Entry {place} of the list is no tool with a name that can be offered; it is left out"
            issues.append(Issue("error", "names", "TOOL_NAME_INVALID", text, details=details))
        elif name in tools:
            text = f'Tool "{name}" is already registered'
            issues.append(Issue("warning", "names", "TOOL_NAME_DUPLICATE", text, name, details))
        else:
            originals[name] = definition["name"]
            hashes[name] = sha256(msgspec.json.encode(definition, order="sorted")).hexdigest()
            if _SUSPECT.search(jsonrpc.bytes_of(entry)):
                definition = _cleaned(definition)
            tools[name] = Tool(
                name,
                {**definition, "name": name},
                (visibilities or {}).get(originals[name], visibility),
                timeout_s=timeout_s,
                fingerprint=hashes[name],
            )
    return Definitions(tuple(tools.values()), originals, hashes, tuple(issues))


def changed(known: Mapping[str, str], now: Mapping[str, str], source: str) -> list[Issue]:
    """A warning for each tool that is not what it was (T-19, MO1). Both by name: hash of the definition."""
    found = []
    for name, digest in now.items():
        before = known.get(name, digest)
        if before != digest:
            text = f'Tool "{name}" changed its definition since it was first seen'
            details = f"source {source}, definition was {before[:16]}, is {digest[:16]}"
            found.append(Issue("warning", "tools/list", "TOOL_DEFINITION_CHANGED", text, name, details))
    return found


def _decode(entry: msgspec.Raw) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(entry)
    except (msgspec.DecodeError, RecursionError):  # numbers nobody can hold, nested without end
        return {}
    return value if isinstance(value, dict) else {}


def _name(definition: Mapping[str, Any]) -> str | None:
    name = definition.get("name")
    if not isinstance(name, str) or len(name) > MAX_NAME:
        return None
    return re.sub("[\t\n]", "", clean_text(name)) or None


def _cleaned(value: Any, names: bool = False) -> Any:
    """`value` with clean titles and descriptions, wherever they are. `names`: the keys are not keywords."""
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {key: _member(key, one) if not names else _cleaned(one) for key, one in value.items()}


def _member(key: str, value: Any) -> Any:
    if key in _TEXTS and isinstance(value, str):
        return clean_text(value)
    return value if key in _VALUES else _cleaned(value, key in _NAMED)
