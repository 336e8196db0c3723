"""Finds what clients cannot read in the schemas of a tool, and takes it out. Pure.

One schema that a client cannot compile hides all tools of all servers from it. Schemas are judged by the
dialect that they declare; one of an unknown dialect is passed on, because nobody here can judge it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urljoin

from lm_tools_bridge.protocol.param_headers import ANNOTATION
from workspace_server.schemas.dialects import DRAFT_04, dialect_of
from workspace_server.schemas.ecma_patterns import is_pattern
from workspace_server.schemas.schema_limits import (
    MAX_DEPTH,
    MAX_SUBSCHEMAS,
    MEMBERS_THAT_ARE_SCHEMAS,
    REFERENCES,
    subschemas_with_places,
)

Place = tuple[str | int, ...]
"""Keys and indices from the root of a schema to a value in it."""
_ROOT: Final[Mapping[str, Callable[[Any], bool]]] = {
    "properties": lambda value: isinstance(value, Mapping),
    "required": lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
}
"""What clients demand of the root in every dialect."""
_ROUNDS: Final = 8
"""Taking one member out may show the next one, such as a reference to what was taken out."""
_ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_FORMAT_LIMITS: Final = ("formatMinimum", "formatMaximum", "formatExclusiveMinimum", "formatExclusiveMaximum")


class Unusable(ValueError):
    """A schema of arguments that forbids to offer its tool; the message says why, for a person."""


@dataclass(frozen=True, slots=True)
class ReadableInput:
    """A schema of arguments that clients can read.

    Attributes:
        schema: the schema itself if nothing had to be changed.
        removed: places whose members were taken out or changed.
        unchecked: why arguments are not checked; None if they are.
    """

    schema: Mapping[str, Any]
    removed: tuple[str, ...] = ()
    unchecked: str | None = None


_ANY_INPUT: Final = ReadableInput(_ANY_OBJECT, ("inputSchema",), "its inputSchema cannot be read")


def readable_input(schema: object) -> ReadableInput:
    """What clients may be shown of a schema of arguments.

    Raises:
        Unusable: no client may be shown the tool.
    """
    if not isinstance(schema, Mapping):
        return _ANY_INPUT
    rooted = _with_readable_root(schema)
    if rooted is None:
        return _ANY_INPUT
    readable, removed = rooted
    problem, unchecked = _verdict(readable)
    if problem is None and next(_broken(readable), None) is None:
        return ReadableInput(readable, removed, unchecked)
    try:
        mended, places = _mended(readable)
    except RecursionError:  # deeper than can be copied
        return _ANY_INPUT
    if places:
        removed += tuple(f"inputSchema.{_path(place)}" for place in places)
        problem, unchecked = _verdict(mended)
    if problem is not None and ANNOTATION in problem:  # MCP 2026-07-28 lets no client see such a tool
        raise Unusable(problem)
    if problem is not None and next(_meta_places(mended), None) is not None:
        return _ANY_INPUT
    # what was taken out may have stood in a condition or an alternative: the rest says nothing for sure
    why = "its inputSchema was repaired" if places else problem or unchecked
    return ReadableInput(mended if places else readable, removed, why)


def _verdict(schema: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Why a schema cannot be used by our own engine, and why arguments are not checked; None for neither."""
    from workspace_server.schemas.validation import validator_for

    try:
        return None, validator_for(schema).unchecked
    except ValueError as problem:
        return str(problem), None


def output_problem(schema: Mapping[str, Any]) -> str | None:
    """Why a client could not compile a schema of results; None if all of them can.

    Clients compile them when they list tools, with the flag `u` for patterns, and refuse more than the
    dialects do. A part cannot be taken out: a valid result might not fit what is left.
    """
    dialect = dialect_of(schema)
    if dialect is None or dialect is DRAFT_04:
        return f"clients do not know the dialect {str(schema.get('$schema'))[:100]}"
    if next(_broken(schema), None) is None and dialect.metaschema.is_valid(dict(schema)):
        return _strict_problem(schema)
    places = [*_meta_places(schema), *_broken(schema)]
    return f"{_path(places[0])} cannot be read" if places else "it is not a valid schema"


def _with_readable_root(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]] | None:
    """The schema as one of an object, and the members that changed; None if it is one of something else.

    Arguments always are an object, so that a missing type means nothing else.
    """
    type_member = schema.get("type")
    if type_member != "object" and not (
        type_member is None or (isinstance(type_member, list) and "object" in type_member)
    ):
        return None
    changed = [member for member, fits in _ROOT.items() if member in schema and not fits(schema[member])]
    members = {name: value for name, value in schema.items() if name not in changed}
    if type_member != "object":
        members["type"] = "object"
        changed.append("type")
    return (members if changed else schema), tuple(f"inputSchema.{member}" for member in changed)


def _path(place: Place) -> str:
    return ".".join(str(part)[:80] for part in place)


def _mended(schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[Place]]:
    """The schema without what its dialect or ECMA-262 does not know, and the places of that."""
    mended: dict[str, Any] = copy.deepcopy(dict(schema))
    removed: list[Place] = []
    for _ in range(_ROUNDS):
        places = [*_meta_places(mended), *_broken(mended)]
        if not places:
            break
        # the deepest first, because a place above may take the whole part out
        ordered = sorted(set(places), key=lambda place: (-len(place), str(place)))
        removed += [
            taken_member for place in ordered if (taken_member := _take_out(mended, place)) is not None
        ]
    return mended, list(dict.fromkeys(removed))


def _take_out(schema: dict[str, Any], place: Place) -> Place | None:
    """Take out the member at a place, or the nearest around it that may be missing; its place."""
    holders: list[Any] = [schema]
    for part in place[:-1]:
        try:
            holders.append(holders[-1][part])
        except (KeyError, IndexError, TypeError):
            return None
    while place and not isinstance(holders[-1], dict):
        holders.pop()
        place = place[:-1]
    if not place or place[-1] not in holders[-1]:
        return None
    if len(place) > 1 and place[-2] in MEMBERS_THAT_ARE_SCHEMAS and place[-2] != "patternProperties":
        holders[-1][place[-1]] = {}  # the property exists, whatever it may be
    else:
        del holders[-1][place[-1]]
    return place


def _meta_places(schema: Mapping[str, Any]) -> Iterator[Place]:
    """What the dialect itself does not allow; its opinion of patterns is that of another engine."""
    dialect = dialect_of(schema)
    if dialect is None:
        return
    try:
        errors = list(dialect.metaschema.iter_errors(dict(schema)))
    except (ValueError, TypeError, RecursionError, OverflowError):
        yield ()
        return
    for error in errors:
        if error.kind.name != "format":
            yield tuple(error.instance_path)


def _nodes(schema: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """All schemas in a schema, with their places, up to the limits of what is looked at."""
    waiting: list[tuple[Place, Mapping[str, Any]]] = [((), schema)]
    for _ in range(MAX_SUBSCHEMAS):
        if not waiting:
            return
        place, node = waiting.pop()
        yield place, node
        if len(place) <= 2 * MAX_DEPTH:
            waiting += [((*place, *inner), sub) for inner, sub in subschemas_with_places(node)]


def _broken(schema: Mapping[str, Any]) -> Iterator[Place]:
    """References that lead nowhere in the schema, and patterns that no ECMAScript engine reads."""
    nodes = list(_nodes(schema))
    addresses = _Addresses(nodes)
    for place, node in nodes:
        for keyword in REFERENCES:
            if isinstance(node.get(keyword), str) and not addresses.has(schema, node[keyword]):
                yield (*place, keyword)
        pattern, patterned = node.get("pattern"), node.get("patternProperties")
        if isinstance(pattern, str) and not _is_readable(pattern):
            yield (*place, "pattern")
        if isinstance(patterned, Mapping):
            yield from ((*place, "patternProperties", key) for key in patterned if not _is_readable(key))


def _is_readable(pattern: str) -> bool:
    return is_pattern(pattern, unicode=True) or is_pattern(pattern, unicode=False)


class _Addresses:
    """The anchors and identities in a schema."""

    def __init__(self, nodes: Sequence[tuple[Place, Mapping[str, Any]]]) -> None:
        self._root = _identity(nodes[0][1])
        self._anchors: set[str] = set()
        self._documents = {urljoin(self._root, self._root).partition("#")[0]}
        for _, node in nodes:
            self._anchors.update(str(node[word]) for word in ("$anchor", "$dynamicAnchor") if word in node)
            document, _, fragment = urljoin(self._root, _identity(node)).partition("#")
            self._documents.add(document)
            self._anchors.add(fragment)

    def has(self, schema: Mapping[str, Any], reference: str) -> bool:
        """Whether a reference leads to something in the schema."""
        if _BROKEN_ESCAPE.search(reference):
            return False
        if not reference.startswith("#"):
            document, _, fragment = urljoin(self._root, reference).partition("#")
            return document in self._documents and (fragment[:1] in ("", "/") or fragment in self._anchors)
        fragment = unquote(reference[1:])
        if fragment[:1] not in ("", "/"):
            return fragment in self._anchors
        return _leads_somewhere(schema, fragment) or len(self._documents) > 1


def _identity(node: Mapping[str, Any]) -> str:
    identifier = node.get("$id", node.get("id"))
    return identifier if isinstance(identifier, str) else ""


def _leads_somewhere(schema: Mapping[str, Any], pointer: str) -> bool:
    value: Any = schema
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return False
    return isinstance(value, Mapping | bool)


def _strict_problem(schema: Mapping[str, Any]) -> str | None:
    """What the validator of widespread clients refuses in a schema that is valid."""
    nodes = list(_nodes(schema))
    names: set[tuple[str, str]] = set()
    ending: set[int] = set()
    for place, node in nodes:
        where = _path(place) or "the root"
        if (problem := _strict_problem_of(node)) is not None:
            return f"{where}: {problem}"
        for word in ("$id", "$anchor", "$dynamicAnchor"):
            if word in node and (word, str(node[word])) in names:
                return f"{where}: {word} {str(node[word])[:80]} is there twice"
            names.update({(word, str(node[word]))} if word in node else ())
        if _is_endless(schema, node, ending):
            return f"{where}: $ref leads back to itself"
    return None


def _strict_problem_of(node: Mapping[str, Any]) -> str | None:
    if isinstance(node.get("id"), str):
        return "the keyword id; newer dialects have $id"
    if "nullable" in node:
        nullable, types = node["nullable"], node.get("type")
        if not isinstance(nullable, bool) or types is None:
            return "nullable without a type"
        if not nullable and "null" in (types if isinstance(types, list) else [types]):
            return "nullable contradicts the type"
    if node.get("enum") == []:
        return "an empty enum"
    if any(word in node for word in _FORMAT_LIMITS) and "format" not in node:
        return "a limit of a format that is not there"
    anchors = [node[word] for word in ("$anchor", "$dynamicAnchor") if word in node]
    if not all(isinstance(anchor, str) and _ANCHOR.fullmatch(anchor) for anchor in anchors):
        return "an anchor that is none"
    patterns = [*([node["pattern"]] if "pattern" in node else []), *node.get("patternProperties", ())]
    unread = next((pattern for pattern in patterns if not is_pattern(str(pattern), unicode=True)), None)
    return None if unread is None else f"the pattern {unread[:80]} is none with the flag u"


def _is_endless(schema: Mapping[str, Any], node: Mapping[str, Any], ending: set[int]) -> bool:
    """Whether a reference leads only to references, and back.

    Args:
        schema: the whole schema.
        node: what has the reference.
        ending: the identities of nodes that do not; gets more of them, so that a chain is followed once.
    """
    visited: set[int] = set()
    current: Any = node
    while isinstance(current, Mapping) and isinstance(reference := current.get("$ref"), str):
        if id(current) in ending:
            break
        if id(current) in visited:
            return True
        visited.add(id(current))
        current = _target(schema, reference)
    ending |= visited
    return False


def _target(schema: Mapping[str, Any], reference: str) -> Any:
    value: Any = schema
    for part in unquote(reference[1:]).split("/")[1:] if reference.startswith("#") else [""]:
        key: Any = part.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
