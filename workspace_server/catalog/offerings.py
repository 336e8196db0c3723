"""Merges prompts, resources, resource templates and skills of all sources. Pure.

Prompts are named like tools. URIs stay unchanged, because results link to them; if two sources have the same
URI, the first one answers. Only addresses of apps are kept apart (`app_addresses.py`). `lm-tools://…` URIs
and those of our own skills are reserved; no other source can claim them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import skills_extension as extension
from lm_tools_bridge.protocol.issues import Issue
from workspace_server import naming
from workspace_server.catalog.app_addresses import NO_ADDRESSES, AppAddresses
from workspace_server.source import Source
from workspace_server.tool import Entry, SourceOfferings

MAX_NAMED: Final = 5
"""How many URIs one issue lists."""
MAX_STEPS: Final = 200_000
"""Limit for matching one URI with templates, about 0.1 s. Sources not found by then are asked later."""


@dataclass(frozen=True, slots=True)
class OfferedEntry:
    """One entry as it is offered: its offered name, its definition under that name, and its source."""

    name: str
    entry: Entry
    source: Source
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class Offerings:
    """Prompts, resources, templates and skills of all sources, each sorted.

    Attributes:
        sources: the sources that may offer any, in configuration order.
        issues: clashes of names and URIs.
    """

    prompts: tuple[OfferedEntry, ...] = ()
    resources: tuple[OfferedEntry, ...] = ()
    templates: tuple[OfferedEntry, ...] = ()
    skills: tuple[OfferedEntry, ...] = ()
    sources: tuple[Source, ...] = ()
    issues: tuple[Issue, ...] = ()

    def prompt(self, name: str) -> OfferedEntry | None:
        """The prompt of exactly this name."""
        return self._prompts.get(name)

    def template(self, text: str) -> OfferedEntry | None:
        """The template that is exactly this text."""
        return next((template for template in self.templates if template.name == text), None)

    def owner(self, uri: str) -> Source | None:
        """The source that lists exactly this resource."""
        offered = self._resources.get(uri)
        return None if offered is None else offered.source

    def skill(self, uri: str) -> OfferedEntry | None:
        """The skill whose `SKILL.md` has exactly this URI."""
        return self._skills.get(uri)

    def likely(self, uri: str) -> list[Source]:
        """The sources with a template that matches this URI, as far as `MAX_STEPS` allows to find out."""
        sources: set[str] = set()
        left = MAX_STEPS
        for template in self.templates:
            if template.source.id not in sources:
                left -= steps(template.name, uri)
                if left >= 0 and matches(template.name, uri):
                    sources.add(template.source.id)
        return [source for source in self.sources if source.id in sources]

    @cached_property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """The numbers of prompts and resources by source id, without templates."""
        counts: dict[str, dict[str, int]] = {}
        for word, entries in (("promptCount", self.prompts), ("resourceCount", self.resources)):
            for entry in entries:
                counted = counts.setdefault(entry.source.id, {"promptCount": 0, "resourceCount": 0})
                counted[word] += 1
        return counts

    @cached_property
    def _prompts(self) -> Mapping[str, OfferedEntry]:
        return {prompt.name: prompt for prompt in self.prompts}

    @cached_property
    def _skills(self) -> Mapping[str, OfferedEntry]:
        return {skill.name: skill for skill in self.skills}

    @cached_property
    def _resources(self) -> Mapping[str, OfferedEntry]:
        return {resource.name: resource for resource in self.resources}


def merge(sources: Sequence[Source], addresses: AppAddresses = NO_ADDRESSES) -> Offerings:
    """Merge what these sources are known to offer; the sources are in configuration order.

    Equal `ui://` addresses are kept apart as `addresses` says.

    A source whose tools are off by default offers nothing: there is no setting to enable single entries.
    """
    offerings_by_source = [(source, source.offerings()) for source in sources if source.default == "enabled"]
    names_by_source, issues = naming.assign(
        [(source, offerings.prompts) for source, offerings in offerings_by_source], None, "prompt"
    )
    prompts = tuple(
        OfferedEntry(entry.name, entry.item, entry.source, {**entry.item.definition, "name": entry.name})
        for entry in names_by_source
    )
    resources, clashes = _by_uri(offerings_by_source, lambda offerings: offerings.resources, "uri", addresses)
    templates, more = _by_uri(
        offerings_by_source, lambda offerings: offerings.templates, "uriTemplate", addresses
    )
    skills, _ = _by_uri(
        offerings_by_source, lambda offerings: offerings.skills, "uri", addresses
    )  # clashes are those of the resources
    offering = tuple(source for source, _ in offerings_by_source)
    return Offerings(prompts, resources, templates, skills, offering, (*issues, *clashes, *more))


def of_server(source: Source) -> Offerings:
    """What one server offers, under its own names."""
    merged = merge((source,))
    prompts = [
        replace(prompt, name=prompt.entry.name, definition=prompt.entry.definition)
        for prompt in merged.prompts
    ]
    return replace(merged, prompts=tuple(sorted(prompts, key=lambda prompt: naming.sort_key(prompt.name))))


def _by_uri(
    offerings_by_source: Sequence[tuple[Source, SourceOfferings]],
    of: Callable[[SourceOfferings], Sequence[Entry]],
    key: str,
    addresses: AppAddresses,
) -> tuple[tuple[OfferedEntry, ...], list[Issue]]:
    """The entries of all sources, sorted by URI; of equal URIs only the first."""
    entries_by_name: dict[str, OfferedEntry] = {}
    issues = []
    for source, offerings in offerings_by_source:
        clashing: dict[str, list[str]] = {}
        for entry in of(offerings):
            name, definition = addresses.client_address(source, entry.name), entry.definition
            if name != entry.name:
                definition = {**definition, key: name}
            if _is_reserved(name, source):
                clashing.setdefault("", []).append(name)
            elif name in entries_by_name:
                clashing.setdefault(entries_by_name[name].source.id, []).append(name)
            else:
                entries_by_name[name] = OfferedEntry(name, entry, source, definition)
        issues += [_taken_issue(source, keeper, uris) for keeper, uris in clashing.items()]
    ordered = sorted(entries_by_name.values(), key=lambda entry: naming.sort_key(entry.name))
    return tuple(ordered), issues


def _is_reserved(uri: str, source: Source) -> bool:
    return uri.startswith(names.OWN_SCHEME) or (source.kind != "skill" and extension.is_own(uri))


def _taken_issue(source: Source, keeper: str, uris: Sequence[str]) -> Issue:
    """One issue for all URIs of a source that another one has; an empty `keeper` means they are reserved."""
    examples = ", ".join(uris[:MAX_NAMED]) + (f" and {len(uris) - MAX_NAMED} more" * (len(uris) > MAX_NAMED))
    if keeper:
        text = f'Sources "{keeper}" and "{source.id}" offer the same URIs; the first one answers: {examples}'
        return Issue("warning", "names", "RESOURCE_URI_CLASH", text, details=f"source {source.id}")
    text = f'URIs of source "{source.id}" are reserved and left out: {examples}'
    return Issue("warning", "names", "RESOURCE_URI_RESERVED", text, details=f"source {source.id}")


# Generous on purpose: it finds the servers to ask for a resource, and each server decides for itself.

# Matching takes the time of length times expressions, for each template of each server: with these limits a
# hostile template costs less than 0.1 s. Addresses on the web are shorter than 8 KiB, too.
MAX_LENGTH: Final = 8192
MAX_EXPRESSIONS: Final = 32
_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_ENDS: Final = {"": "/?#", "+": "", "#": "", ".": "/?#", "/": "?#", ";": "/?#", "?": "#", "&": "#"}
"""The characters that end the value of an expression, by the expression's operator."""


def steps(template: str, uri: str) -> int:
    """An estimate of the steps that `matches` takes."""
    begin, _, rest = template.partition("{")
    return (rest.count("{") + 1) * len(uri) if rest and uri.startswith(begin) else 1


def matches(template: str, uri: str) -> bool:
    """Whether the template can expand to this URI; False if either is too long to check."""
    if len(uri) > MAX_LENGTH or len(template) > MAX_LENGTH:
        return False
    pieces = _EXPRESSION.split(template)
    if len(pieces) > 1 + 3 * MAX_EXPRESSIONS or not uri.startswith(pieces[0]):
        return False
    positions = {len(pieces[0])}  # positions in the URI up to which the template has matched
    for operator, literal in zip(pieces[1::3], pieces[3::3], strict=True):
        positions = _after(uri, _spanned(uri, positions, _ENDS[operator]), literal)
        if not positions:
            return False
    return len(uri) in positions


def _spanned(uri: str, positions: set[int], ends: str) -> set[int]:
    """All positions that can be reached from these without crossing one of `ends`."""
    reached = set()
    is_inside = False
    for position in range(min(positions), len(uri) + 1):
        is_inside = position in positions or (is_inside and uri[position - 1] not in ends)
        if is_inside:
            reached.add(position)
    return reached


def _after(uri: str, positions: set[int], literal: str) -> set[int]:
    return (
        {position + len(literal) for position in positions if uri.startswith(literal, position)}
        if literal
        else positions
    )
