"""Examines a JSON Schema before it is compiled: size, references, cost of a check, secret properties.

Schemas come from untrusted servers. `validation.py` compiles them and checks arguments.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urljoin

from lm_tools_bridge.protocol.param_headers import ANNOTATION

# Schemas in use stay far below these. A schema within them is compiled in less than a second and checked
# within `MAX_EVALUATIONS`; servers that nobody trusts can send any.
MAX_DEPTH = 32
MAX_SUBSCHEMAS = 5_000
MAX_PATTERNS = 256
MAX_EVALUATIONS = 1_000_000  # about 50 ms of the engine's time
_MAX_LEVELS = 128

ANY_VALUE = "*"
"""In `SchemaSurvey.hidden`: a secret may be anywhere, so no value is shown."""

_Schema = Mapping[str, Any]
_Where = Literal["here", "member", "overlay", "unused"]

# keyword: where its subschemas apply. "here": to the same value; "member": one of them to each child of the
# value; "overlay": to children, in addition to "member"; "unused": only through a reference.
_SINGLE: dict[str, _Where] = {
    "not": "here",
    "if": "here",
    "then": "here",
    "else": "here",
    "additionalProperties": "member",
    "items": "member",
    "additionalItems": "member",
    "contains": "overlay",
    "unevaluatedProperties": "overlay",
    "unevaluatedItems": "overlay",
    "propertyNames": "overlay",
    "contentSchema": "unused",
}
_LISTS: dict[str, _Where] = {
    "allOf": "here",
    "anyOf": "here",
    "oneOf": "here",
    "prefixItems": "member",
    "items": "member",
}
_MAPS: dict[str, _Where] = {
    "properties": "member",
    "patternProperties": "overlay",
    "dependentSchemas": "here",
    "dependencies": "here",
    "$defs": "unused",
    "definitions": "unused",
}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
MEMBERS_THAT_ARE_SCHEMAS = frozenset(_MAPS)
"""Keywords whose members are schemas under names of their own."""
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_PRIMITIVES = ("string", "number", "integer", "boolean")


def subschemas(schema: _Schema) -> Iterator[tuple[str, str | None, _Where, _Schema]]:
    """(keyword, key in it, where it applies, subschema) of every direct subschema that is an object."""
    for keyword, value in schema.items():
        if isinstance(value, Mapping):
            if keyword in _SINGLE:
                yield keyword, None, _SINGLE[keyword], value
            elif keyword in _MAPS:
                where = _MAPS[keyword]
                yield from (
                    (keyword, str(k), where, sub) for k, sub in value.items() if isinstance(sub, Mapping)
                )
        elif isinstance(value, list) and keyword in _LISTS:
            where = _LISTS[keyword]
            yield from ((keyword, None, where, sub) for sub in value if isinstance(sub, Mapping))


def subschemas_with_places(schema: _Schema) -> Iterator[tuple[tuple[str | int, ...], _Schema]]:
    """Every direct subschema that is an object, with the keys and indices that lead to it."""
    for keyword, value in schema.items():
        if isinstance(value, Mapping):
            if keyword in _SINGLE:
                yield (keyword,), value
            elif keyword in _MAPS:
                yield from (((keyword, key), sub) for key, sub in value.items() if isinstance(sub, Mapping))
        elif isinstance(value, list) and keyword in _LISTS:
            yield from (((keyword, at), sub) for at, sub in enumerate(value) if isinstance(sub, Mapping))


@dataclass(slots=True)
class SchemaSurvey:
    """The result of one walk over a schema.

    Attributes:
        problem: why the schema cannot be used; None if it can.
        too_large: why nobody looks at all of it; None if somebody did.
        hidden: names of properties whose values are never shown, or `ANY_VALUE`.
        nodes: all schemas of the document, the root first.
    """

    problem: str | None = None
    too_large: str | None = None
    hidden: set[str] = field(default_factory=set)
    nodes: list[_Schema] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    headers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Visit:
    schema: _Schema
    depth: int = 0
    owner: str = ANY_VALUE  # nearest property name above
    by_properties: bool = True  # reached through `properties` alone


def survey_schema(schema: _Schema) -> SchemaSurvey:
    """Walk `schema` once; stops at the first problem."""
    survey = SchemaSurvey()
    if schema.get("type") != "object":
        survey.problem = "the schema has no type object"
    pending = deque([_Visit(schema)])
    visited: set[int] = set()
    while pending and survey.problem is None and survey.too_large is None:
        visit = pending.pop()
        if id(visit.schema) in visited:
            continue
        visited.add(id(visit.schema))
        survey.nodes.append(visit.schema)
        if visit.depth > MAX_DEPTH:
            survey.too_large = f"nested deeper than {MAX_DEPTH} levels"
        elif len(survey.nodes) > MAX_SUBSCHEMAS:
            survey.too_large = f"more than {MAX_SUBSCHEMAS} subschemas"
        else:
            _inspect(visit, survey)
            pending.extend(_below(visit))
            # targets of references last: most are also reached by their own path, with their own owner
            pending.extendleft(_referenced(visit, schema))
    if survey.problem is None and survey.too_large is None:
        survey.problem = _reference_problem(survey.nodes)
    return survey


def _below(visit: _Visit) -> Iterator[_Visit]:
    for keyword, key, _, sub in subschemas(visit.schema):
        by_properties = visit.by_properties and keyword == "properties"
        yield _Visit(sub, visit.depth + 1, _owner(visit.owner, keyword, key), by_properties)


def _referenced(visit: _Visit, root: _Schema) -> Iterator[_Visit]:
    """Targets of references, which need not be subschemas of any keyword."""
    for keyword in REFERENCES:
        if (target := resolve(root, visit.schema.get(keyword))) is not None:
            yield _Visit(target, by_properties=False)


def _owner(above: str, keyword: str, key: str | None) -> str:
    if keyword == "properties" and key is not None:
        return key
    return ANY_VALUE if keyword in {"$defs", "definitions"} else above


def _inspect(visit: _Visit, survey: SchemaSurvey) -> None:
    schema = visit.schema
    if schema.get("writeOnly") is True or schema.get("format") == "password":
        survey.hidden.add(visit.owner)
    if isinstance(pattern := schema.get("pattern"), str):
        survey.patterns.append(pattern)
    if isinstance(patterned := schema.get("patternProperties"), Mapping):
        survey.patterns.extend(str(key) for key in patterned)
    if ANNOTATION in schema:
        name = schema[ANNOTATION]
        fits = visit.by_properties and visit.depth > 0 and schema.get("type") in _PRIMITIVES
        if not fits or not isinstance(name, str) or not _TOKEN.fullmatch(name):
            survey.problem = f"{ANNOTATION} of {visit.owner} is not a header name on a primitive property"
        elif name.lower() in survey.headers:
            survey.problem = f"{ANNOTATION} {name} is used twice"
        else:
            survey.headers.add(name.lower())


def _reference_problem(nodes: list[_Schema]) -> str | None:
    """A message if a reference leaves the document; embedded `$id`s belong to it."""
    root = str(nodes[0].get("$id", ""))
    embedded = {urljoin(root, str(node["$id"])).partition("#")[0] for node in nodes if "$id" in node}
    for node in nodes:
        for keyword in REFERENCES:
            target = node.get(keyword)
            if not isinstance(target, str) or target.startswith("#"):
                continue
            if urljoin(root, target).partition("#")[0] not in embedded:
                return f"{keyword} {target[:80]!r} leads off the document"
    return None


def resolve(root: _Schema, reference: object) -> _Schema | None:
    """The schema that a `#…` reference names by JSON pointer, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    node: Any = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node if isinstance(node, Mapping) else None


class EvaluationCost:
    """An upper bound of schema evaluations per value at each depth of an instance.

    With references it is exponential in the size of a schema: thirty definitions that each refer to the next
    one twice cause 2³⁰ evaluations. The bound is computed level by level, without expanding references.
    """

    def __init__(self, survey: SchemaSurvey) -> None:
        self._levels = _levels(survey.nodes)

    @property
    def always_too_much(self) -> bool:
        """Whether even the check of an empty object is too expensive."""
        return self._levels[0] > MAX_EVALUATIONS

    def evaluations(self, values_per_level: list[int]) -> int:
        """Upper bound for an instance with that many values at each depth, starting with the root."""
        last = len(self._levels) - 1
        return sum(count * self._levels[min(level, last)] for level, count in enumerate(values_per_level))

    def most_members(self) -> int:
        """How many scalar members of an object may be checked; -1 if not even an empty object."""
        for_itself, for_each = self._levels[0], self._levels[min(1, len(self._levels) - 1)]
        return max(-1, (MAX_EVALUATIONS - for_itself) // max(1, for_each))


@dataclass(slots=True)
class _Edges:
    here: list[int] = field(default_factory=list)
    member: list[int] = field(default_factory=list)
    overlay: list[int] = field(default_factory=list)
    unused: list[int] = field(default_factory=list)


def _targets(root: _Schema, nodes: list[_Schema], index: dict[int, int]) -> Iterator[tuple[int, int]]:
    anchors = {
        str(node[word]): node for node in nodes for word in ("$anchor", "$dynamicAnchor") if word in node
    }
    ids = {str(node["$id"]).rpartition("/")[2]: node for node in nodes if "$id" in node}
    for at, node in enumerate(nodes):
        for keyword in REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str):
                target = resolve(root, reference) or anchors.get(reference.rpartition("#")[2])
                target = target or ids.get(reference.rpartition("/")[2])
                if target is not None and id(target) in index:
                    yield at, index[id(target)]


def _levels(nodes: list[_Schema]) -> list[int]:
    """Evaluations of the root schema per depth; the last entry applies to all deeper levels."""
    index = {id(node): at for at, node in enumerate(nodes)}
    edges = [_Edges() for _ in nodes]
    for at, node in enumerate(nodes):
        for _, _, where, sub in subschemas(node):
            getattr(edges[at], where).append(index[id(sub)])
    for at, target in _targets(nodes[0], nodes, index):
        edges[at].here.append(target)
    order = _bottom_up(edges)
    above: list[int] = []
    levels: list[int] = []
    while len(levels) < _MAX_LEVELS:
        current = _one_level(edges, order, above)
        levels.append(current[0])
        if current == above or current[0] > MAX_EVALUATIONS:
            break
        above = current
    return levels


def _one_level(edges: list[_Edges], order: list[int], shallower: list[int]) -> list[int]:
    """Evaluations per schema at one depth, computed from the previous depth (empty for the first)."""
    current = [0] * len(edges)
    for at in order:
        edge = edges[at]
        if shallower:
            total = max((shallower[sub] for sub in edge.member), default=0)
            total += sum(shallower[sub] for sub in edge.overlay)
        else:
            total = 1
        total += sum(current[sub] for sub in edge.here)
        current[at] = min(total, 2 * MAX_EVALUATIONS)
    return current


def _bottom_up(edges: list[_Edges]) -> list[int]:
    """All schemas, each after those it applies to the same value; cycles are cut."""
    order: list[int] = []
    visited = [False] * len(edges)
    for start in range(len(edges)):
        pending = [(start, False)]
        while pending:
            at, done = pending.pop()
            if done:
                order.append(at)
            elif not visited[at]:
                visited[at] = True
                pending.append((at, True))
                pending.extend((sub, False) for sub in edges[at].here if not visited[sub])
    return order
