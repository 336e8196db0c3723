"""Defines the kinds of lists of an MCP server, and converts their entries, with cleaned texts. Pure.

Unknown members stay. `catalog/listing.py` checks schemas; `naming.py` makes the names that clients see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import msgspec

from lm_tools_bridge.protocol import apps_extension, jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.issues import Issue
from workspace_server.results import clean_text
from workspace_server.sources.mcp.member_rules import (
    ANNOTATIONS,
    ANYTHING,
    ICONS,
    ListRule,
    ObjectRule,
    Rule,
    fitting,
    is_flag,
    is_text,
    is_whole,
    one_of,
)
from workspace_server.tool import Entry, TaskUse, Tool, Visibility


@dataclass(frozen=True, slots=True)
class ListKind:
    """One list.

    Attributes:
        word: an entry of it, in words.
        method: the request for it.
        member: the list's name in the answer.
        key: the member of an entry that it is asked for by.
        capability: what a server that has the list declares; its changes are announced under this name.
    """

    word: str
    method: str
    member: str
    key: str
    capability: str

    @property
    def code(self) -> str:
        """The beginning of the codes of issues about it."""
        return self.word.upper()

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        """Whether a server with these capabilities has the list."""
        if self.method == skills.LIST:
            return skills.is_declared(capabilities)
        return self.capability in capabilities


TOOLS: Final = ListKind("tool", names.TOOLS_LIST, "tools", "name", "tools")
PROMPTS: Final = ListKind("prompt", names.PROMPTS_LIST, "prompts", "name", "prompts")
RESOURCES: Final = ListKind("resource", names.RESOURCES_LIST, "resources", "uri", "resources")
TEMPLATES: Final = ListKind("template", names.TEMPLATES_LIST, "resourceTemplates", "uriTemplate", "resources")
SKILLS: Final = ListKind("skill", skills.LIST, "skills", "uri", "resources")
OTHER_KINDS: Final = (PROMPTS, RESOURCES, TEMPLATES, SKILLS)
"""All but tools: asked for only where the server declares them. Tools are asked for in any case, since there
are servers that have them and do not say so."""


def kinds_of_capability(capability: str) -> tuple[ListKind, ...]:
    """The lists that may differ when a server says that `tools`, `prompts` or `resources` changed."""
    return tuple(kind for kind in (TOOLS, *OTHER_KINDS) if kind.capability == capability)


Item = TypeVar("Item")

MAX_NAME: Final = 256
"""Characters: models take names of 64, and no client shows a longer one whole."""
MAX_URI: Final = 8192
"""Characters: web servers refuse longer addresses (nginx: 8 KiB)."""
MAX_NAMED: Final = 5
"""Removed members that an issue names."""
MEMBERS_REMOVED: Final = "MEMBERS_REMOVED"
"""The end of the codes of issues about entries that were repaired."""
_CALLED: Final = {"name": "name", "uri": "URI", "uriTemplate": "URI template"}
_TEXTS: Final = frozenset({"title", "description"})
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
"""Members of a schema whose content is data, not text for a reader."""
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Members of a schema whose keys are somebody's own names."""
_SUSPECT: Final = re.compile(rb"[\x7f-\xff]|\\[ubfr]")
"""Without one of these in its JSON a text needs no cleaning."""


@dataclass(frozen=True, slots=True)
class Definitions(Generic[Item]):
    """The entries of one list.

    Attributes:
        items: in the order of the list, under names that can be offered.
        originals: the server's own name of each.
        hashes: of each whole definition as it came.
        issues: what was left out or repaired.
    """

    items: tuple[Item, ...] = ()
    originals: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()


Make = Callable[[str, str, Mapping[str, Any], str], Item]
"""Makes an item from its name, the server's own name, its definition, and that definition's hash."""


def read(
    entries: Sequence[msgspec.Raw],
    source: str,
    *,
    visibility: Visibility = "native",
    visibilities: Mapping[str, Visibility] | None = None,
    timeout_s: float | None = None,
    task: TaskUse = "forbidden",
    apps: bool = True,
) -> Definitions[Tool]:
    """The tools of a list; never raises, whatever the entries are.

    Args:
        entries: each a tool object as JSON text.
        source: id of the source, for issues.
        visibility: of all its tools; `visibilities` of single ones, by the server's own names.
        timeout_s: the longest one call may take.
        task: whether a call may be a task.
        apps: whether it may have apps. If not, tools have none, and those that only apps call are left out.
    """

    def make(name: str, original: str, definition: Mapping[str, Any], digest: str) -> Tool:
        definition = definition if apps else apps_extension.without_ui(definition)
        tool_visibility = (visibilities or {}).get(original, visibility)
        definition = {**definition, "name": name}
        return Tool(name, definition, tool_visibility, timeout_s=timeout_s, fingerprint=digest, task=task)

    return _read(entries if apps else _for_models(entries), source, TOOLS, make)


def _for_models(entries: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The entries without the tools that only apps call."""
    uis = ((entry, apps_extension.tool_ui(_decode(entry))) for entry in entries)
    return [entry for entry, ui in uis if ui is None or ui.for_model]


def read_others(entries: Sequence[msgspec.Raw], source: str, kind: ListKind) -> Definitions[Entry]:
    """The entries of a list of another kind; as `read`. URIs are kept as they are, or left out.

    A skill is kept as it is: clients compare it with its file.
    """

    def make(name: str, original: str, definition: Mapping[str, Any], digest: str) -> Entry:
        return Entry(name, {**definition, kind.key: name}, original)

    return _read(entries, source, kind, make)


def _read(entries: Sequence[msgspec.Raw], source: str, kind: ListKind, make: Make[Item]) -> Definitions[Item]:
    items: dict[str, Item] = {}
    originals: dict[str, str] = {}
    hashes: dict[str, str] = {}
    issues: list[Issue] = []
    for place, entry in enumerate(entries, 1):
        definition = _decode(entry)
        name = _name(definition.get(kind.key), kind)
        if name is None or name in items:
            issues.append(_left_out(kind, place, name, source))
            continue
        originals[name] = definition[kind.key]
        hashes[name] = sha256(msgspec.json.encode(definition, order="sorted")).hexdigest()
        removed: tuple[str, ...] = ()
        if kind is not SKILLS:
            if _SUSPECT.search(jsonrpc.bytes_of(entry)):
                definition = _cleaned(definition)
            definition, removed = repaired(definition, kind, name)
        if removed:
            issues.append(_repaired(kind, name, removed, source))
        items[name] = make(name, originals[name], definition, hashes[name])
    return Definitions(tuple(items.values()), originals, hashes, tuple(issues))


def _left_out(kind: ListKind, place: int, name: str | None, source: str) -> Issue:
    details = f"source {source}"
    if name is None:
        what = f"{kind.word} with a {_CALLED[kind.key]} that can be offered"
        text = f"Entry {place} of the list is no {what}; it is left out"
        return Issue("error", "names", f"{kind.code}_NAME_INVALID", text, details=details)
    text = f'{kind.word.capitalize()} "{name}" is already registered'
    tool = name if kind is TOOLS else None
    return Issue("warning", "names", f"{kind.code}_NAME_DUPLICATE", text, tool, details)


def _repaired(kind: ListKind, name: str, removed: Sequence[str], source: str) -> Issue:
    names = ", ".join(sorted(removed)[:MAX_NAMED]) + (" and others" if len(removed) > MAX_NAMED else "")
    text = (
        f'{kind.word.capitalize()} "{name}" has members that clients cannot read; they are left out: {names}'
    )
    tool = name if kind is TOOLS else None
    code = f"{kind.code}_{MEMBERS_REMOVED}"
    return Issue("warning", "schema", code, text, tool, f"source {source}")


def changed(known: Mapping[str, str], now: Mapping[str, str], source: str) -> list[Issue]:
    """A warning for each tool that is not what it was. Both by name: hash of the definition."""
    issues = []
    for name, digest in now.items():
        before = known.get(name, digest)
        if before != digest:
            text = f'Tool "{name}" changed its definition since it was first seen'
            details = f"source {source}, definition was {before[:16]}, is {digest[:16]}"
            issues.append(Issue("warning", "tools/list", "TOOL_DEFINITION_CHANGED", text, name, details))
    return issues


def _decode(entry: msgspec.Raw) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(entry)
    except (msgspec.DecodeError, RecursionError):  # numbers nobody can hold, nested without end
        return {}
    return value if isinstance(value, dict) else {}


def _name(value: object, kind: ListKind) -> str | None:
    if not isinstance(value, str) or len(value) > (MAX_NAME if kind.key == "name" else MAX_URI):
        return None
    name = re.sub("[\t\n]", "", clean_text(value))
    # a name is looked up in a table of ours; a URI goes to the server as the client read it
    return (name or None) if kind.key == "name" or name == value else None


def _cleaned(value: Any, names: bool = False) -> Any:
    """`value` with clean titles and descriptions, wherever they are. `names`: the keys are not keywords."""
    if isinstance(value, list):
        return [_cleaned(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {key: _member(key, member) if not names else _cleaned(member) for key, member in value.items()}


def _member(key: str, value: Any) -> Any:
    if key in _TEXTS and isinstance(value, str):
        return clean_text(value)
    return value if key in _VALUES else _cleaned(value, key in _NAMED)


# Clients read a list as a whole: one description that is a number, or a resource without a name, hides every
# tool or resource of every server from them. Only members that MCP defines are looked at; others stay.

_COMMON: Final[Mapping[str, Rule]] = {
    "title": is_text, "description": is_text, "icons": ICONS, "_meta": ANYTHING,
}  # fmt: skip
_HINTS: Final = ObjectRule(
    {"title": is_text, "readOnlyHint": is_flag, "destructiveHint": is_flag, "idempotentHint": is_flag,
     "openWorldHint": is_flag}
)  # fmt: skip
_FOR_CONTENT: Final[Mapping[str, Rule]] = {
    **_COMMON,
    "name": is_text,
    "mimeType": is_text,
    "annotations": ANNOTATIONS,
}
_ARGUMENTS: Final = ListRule(
    ObjectRule({"name": is_text, "title": is_text, "description": is_text, "required": is_flag}, ("name",))
)
_RULES: Final[Mapping[ListKind, ObjectRule]] = {
    TOOLS: ObjectRule(
        {**_COMMON, "annotations": _HINTS, "outputSchema": ANYTHING,
         "execution": ObjectRule({"taskSupport": one_of("forbidden", "optional", "required")})}
    ),
    PROMPTS: ObjectRule({**_COMMON, "arguments": _ARGUMENTS}),
    RESOURCES: ObjectRule({**_FOR_CONTENT, "size": is_whole}),
    TEMPLATES: ObjectRule(_FOR_CONTENT),
}  # fmt: skip
"""As the schemas of MCP 2025-11-25 and 2026-07-28. `catalog/listing.py` checks input schemas."""


def repaired(
    definition: Mapping[str, Any], kind: ListKind, name: str
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """A definition that clients can read, and the members that were removed.

    A member that is null is one that is absent, as many servers write it. A resource or template without a
    name gets `name`.
    """
    removed: list[str] = []
    members: Mapping[str, Any] = fitting(definition, _RULES[kind], "", removed)
    if "name" in _RULES[kind].members and "name" not in members:
        members = {**members, "name": name}
    return members, tuple(removed)
