"""Decides which definitions of a server's tools are in force: those that are pinned, or new ones. Pure.

The first list of a server is pinned. Harmless changes are taken. Of suspicious ones the pinned definition
stays in force, and the held one is shown to the user as an item of trust; while that is trusted, the held one
is in force. So the user's decision is kept in one place, and revoking it brings the pinned one back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from lm_tools_bridge.pinned_definitions.comparison import Change, compare, new_tool
from workspace_server.results import clean_text
from workspace_server.trust.item import TrustItem, hashed

Mode = Literal["hold", "strict", "take"]
"""Of suspicious changes: the old definition is offered, the tool is not offered, or the change is taken."""
Definition = Mapping[str, Any]

PREFIX: Final = "definitions:"
"""The beginning of the keys of its trust items; the id of the source follows."""
MAX_TOOLS: Final = 2_000
"""As many as a list may have (`workspace_server/sources/mcp/paging.py`)."""
_MAX_LINES: Final = 50
"""Changes that one item names: about two screens."""


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one server.

    Attributes:
        source: the id of the source, such as `stdio:github`.
        version: what the server called its version when it was pinned.
        tools: the pinned definitions, by the server's own names. Those of tools that are gone stay.
        held: the definitions that wait for the user.
        held_version: what the server called its version when it said these.
        roots: the projects in which they were seen.
    """

    source: str
    version: str = ""
    tools: dict[str, dict[str, Any]] = {}
    held: dict[str, dict[str, Any]] = {}
    held_version: str = ""
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a list of a server leads to.

    Attributes:
        pins: what is known now.
        in_force: for each definition of the list the one to offer; None for a tool that is not offered.
        harmless_changes: those that were taken, by tool.
    """

    pins: Pins
    in_force: Sequence[Definition | None]
    harmless_changes: Mapping[str, Sequence[Change]] = field(default_factory=dict)


def settle(
    pins: Pins | None,
    source: str,
    definitions: Sequence[Definition],
    version: str,
    mode: Mode,
    *,
    is_accepted: bool,
) -> Outcome:
    """What is in force of a list.

    Args:
        pins: what is known; None if this is the server's first list.
        source: the id of the source.
        definitions: the definitions, in the order of the list. Those without a name are passed on.
        version: what the server calls its version.
        is_accepted: whether the user trusts the item of what is held.
    """
    if pins is None:
        tools = {name: dict(definition) for name, definition in _first_of_each(definitions)}
        return Outcome(Pins(source=source, version=version, tools=_capped(tools)), definitions)
    base = {**pins.tools, **pins.held} if is_accepted else dict(pins.tools)
    held: dict[str, dict[str, Any]] = {}
    harmless_changes: dict[str, Sequence[Change]] = {}
    # by identity: a list may hold the same definition twice, of which only the first is offered
    replaced: dict[int, Definition | None] = {}
    for name, definition in _first_of_each(definitions):
        before = base.get(name)
        changes = _changes(before, definition, mode)
        if is_accepted and name in pins.held and not compare(pins.tools.get(name, {}), definition):
            changes = ()  # back to what was in force before the user accepted something else
        if all(change.is_harmless for change in changes):
            base[name] = dict(definition)
            harmless_changes |= {name: changes} if changes else {}
        else:
            held[name] = dict(definition)
            replaced[id(definition)] = before if mode == "hold" else None
    in_force = [replaced.get(id(definition), definition) for definition in definitions]
    return Outcome(_after(pins, base, held, version, is_accepted=is_accepted), in_force, harmless_changes)


def _changes(before: Definition | None, definition: Definition, mode: Mode) -> Sequence[Change]:
    """The changes of a tool. One that is new is taken, except where the user is strict: many servers offer
    tools one after the other."""
    if before is not None:
        return compare(before, definition)
    return [new_tool(definition)._replace(is_harmless=mode != "strict")]


def _first_of_each(definitions: Sequence[Definition]) -> Iterator[tuple[str, Definition]]:
    """The definitions that will be offered, by the names under which they will: names are cleaned."""
    names: set[str] = set()
    for definition in definitions:
        name = definition.get("name")
        clean_name = re.sub("[\t\n]", "", clean_text(name)) if isinstance(name, str) else ""
        if clean_name and clean_name not in names:
            names.add(clean_name)
            yield clean_name, definition


def item_of(pins: Pins) -> TrustItem | None:
    """What the user is asked about a server; None if nothing is held."""
    if not pins.held:
        return None
    count = len(pins.held)
    tools = "1 tool says" if count == 1 else f"{count} tools say"
    facts = {
        "server": pins.source,
        "definitions": {
            name: hashed(msgspec.json.encode(pins.held[name], order="sorted")) for name in pins.held
        },
        "changes": list(_lines(pins)),
    }
    kind, _, name = pins.source.partition(":")
    title = f"tools of the {kind} server {name}: {tools} something else than before{_versions(pins)}"
    return TrustItem(PREFIX + pins.source, title, facts)


def _after(
    pins: Pins,
    base: dict[str, dict[str, Any]],
    held: dict[str, dict[str, Any]],
    version: str,
    *,
    is_accepted: bool,
) -> Pins:
    """What is known after a list; what was accepted stays held as long as the server says just that."""
    if (
        is_accepted
        and not held
        and all(base.get(name) == definition for name, definition in pins.held.items())
    ):
        own = {name: definition for name, definition in base.items() if name not in pins.held}
        return msgspec.structs.replace(pins, tools=_capped({**pins.tools, **own}))
    tools = _capped(base)
    if not held:
        version = version or pins.version
        return msgspec.structs.replace(pins, tools=tools, held={}, version=version, held_version="", roots=())
    now = pins.version if not is_accepted else pins.held_version
    return msgspec.structs.replace(
        pins,
        tools=tools,
        held=held,
        version=now,
        held_version=version,
        roots=() if is_accepted else pins.roots,
    )


def _lines(pins: Pins) -> Iterator[str]:
    lines = [
        f"{name}{f' {change.place}' if change.place else ''}: {change.text}"
        for name, definition in sorted(pins.held.items())
        for change in (
            compare(pins.tools[name], definition) if name in pins.tools else [new_tool(definition)]
        )
    ]
    yield from lines[:_MAX_LINES]
    if len(lines) > _MAX_LINES:
        yield f"… and {len(lines) - _MAX_LINES} more changes"


def _versions(pins: Pins) -> str:
    if pins.version == pins.held_version:
        return ", in the same version" if pins.version else ""
    return f"; version {pins.version or 'unknown'} became {pins.held_version or 'unknown'}"


def _capped(tools: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return dict(list(tools.items())[:MAX_TOOLS])
