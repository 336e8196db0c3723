"""Prompts, resources and templates of all sources, merged. Pure.

Prompts are named like tools. A URI stays what its source says, since results link to it; of two sources with
one URI the first answers. Entries of our own (`lm-tools://…`) are not among these, and nobody can take them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from protocol import names
from protocol.issues import Issue
from workspace_server import naming
from workspace_server.catalog import uri_template
from workspace_server.source import Source
from workspace_server.tool import Entry, Extras

MAX_NAMED: Final = 5
"""URIs that one issue names."""
MAX_STEPS: Final = 200_000
"""How much looking one URI is worth, a tenth of a second: sources that are not found so are asked later."""


@dataclass(frozen=True, slots=True)
class OfferedEntry:
    """One entry as it is offered: its name here, its definition under that name, and whose it is."""

    name: str
    entry: Entry
    source: Source
    definition: Mapping[str, Any]


@dataclass(frozen=True)
class Offerings:
    """What all sources offer beside tools, each list in its order.

    Attributes:
        sources: those that may offer any, in the order of their entries.
        issues: about names that clash or are taken.
    """

    prompts: tuple[OfferedEntry, ...] = ()
    resources: tuple[OfferedEntry, ...] = ()
    templates: tuple[OfferedEntry, ...] = ()
    sources: tuple[Source, ...] = ()
    issues: tuple[Issue, ...] = ()

    def prompt(self, name: str) -> OfferedEntry | None:
        """The prompt of exactly this name."""
        return self._prompts.get(name)

    def template(self, text: str) -> OfferedEntry | None:
        """The template that is exactly this text."""
        return next((one for one in self.templates if one.name == text), None)

    def owner(self, uri: str) -> Source | None:
        """The source that lists exactly this resource."""
        offered = self._resources.get(uri)
        return None if offered is None else offered.source

    def likely(self, uri: str) -> list[Source]:
        """The sources with a template that this URI fits; not all, where it takes too long to see."""
        found: set[str] = set()
        left = MAX_STEPS
        for one in self.templates:
            if one.source.id not in found:
                left -= uri_template.steps(one.name, uri)
                if left >= 0 and uri_template.matches(one.name, uri):
                    found.add(one.source.id)
        return [source for source in self.sources if source.id in found]

    @cached_property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many prompts and resources each source has, by source id; templates are not counted."""
        found: dict[str, dict[str, int]] = {}
        for word, entries in (("promptCount", self.prompts), ("resourceCount", self.resources)):
            for one in entries:
                counted = found.setdefault(one.source.id, {"promptCount": 0, "resourceCount": 0})
                counted[word] += 1
        return found

    @cached_property
    def _prompts(self) -> Mapping[str, OfferedEntry]:
        return {one.name: one for one in self.prompts}

    @cached_property
    def _resources(self) -> Mapping[str, OfferedEntry]:
        return {one.name: one for one in self.resources}


def merge(sources: Sequence[Source]) -> Offerings:
    """What these sources are known to offer, in the order of their entries.

    A source whose tools are off by default offers none of it: nobody could switch it on.
    """
    listed = [(source, source.extras()) for source in sources if source.default == "enabled"]
    named, issues = naming.assign([(source, extras.prompts) for source, extras in listed], None, "prompt")
    prompts = tuple(
        OfferedEntry(one.name, one.item, one.source, {**one.item.definition, "name": one.name})
        for one in named
    )
    resources, clashes = _by_uri(listed, lambda extras: extras.resources)
    templates, more = _by_uri(listed, lambda extras: extras.templates)
    offering = tuple(source for source, _ in listed)
    return Offerings(prompts, resources, templates, offering, (*issues, *clashes, *more))


def _by_uri(
    listed: Sequence[tuple[Source, Extras]], of: Callable[[Extras], Sequence[Entry]]
) -> tuple[tuple[OfferedEntry, ...], list[Issue]]:
    """All entries by URI, the first source of each, in list order."""
    found: dict[str, OfferedEntry] = {}
    issues = []
    for source, extras in listed:
        lost: dict[str, list[str]] = {}
        for entry in of(extras):
            if entry.name.startswith(names.OWN_SCHEME):
                lost.setdefault("", []).append(entry.name)
            elif entry.name in found:
                lost.setdefault(found[entry.name].source.id, []).append(entry.name)
            else:
                found[entry.name] = OfferedEntry(entry.name, entry, source, entry.definition)
        issues += [_taken(source, keeper, uris) for keeper, uris in lost.items()]
    ordered = sorted(found.values(), key=lambda one: naming.sort_key(one.name))
    return tuple(ordered), issues


def _taken(source: Source, keeper: str, uris: Sequence[str]) -> Issue:
    """One issue for all URIs that a source shares with another; the empty keeper is ourselves."""
    shown = ", ".join(uris[:MAX_NAMED]) + (f" and {len(uris) - MAX_NAMED} more" * (len(uris) > MAX_NAMED))
    if keeper:
        text = f'Sources "{keeper}" and "{source.id}" offer the same URIs; the first one answers: {shown}'
        return Issue("warning", "names", "RESOURCE_URI_CLASH", text, details=f"source {source.id}")
    text = f'URIs of source "{source.id}" are reserved and left out: {shown}'
    return Issue("warning", "names", "RESOURCE_URI_RESERVED", text, details=f"source {source.id}")
