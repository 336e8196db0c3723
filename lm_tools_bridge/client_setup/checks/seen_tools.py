"""Judges what a played client saw: which tools came late, which it has twice; and sums it up. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.client_setup.checks.configuration_checks import Problem
from lm_tools_bridge.client_setup.checks.played_client import Seen, Unanswered
from lm_tools_bridge.client_setup.clients import Machine
from lm_tools_bridge.client_setup.configured_entries import ClientConfiguration, Configured
from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from lm_tools_bridge.protocol.internal.source_states import STARTING
from manager.cli.output.findings import Level
from manager.routing.client_profiles import ClientProfile

_TOLERANCE: Final = 1.1
"""The times of the profiles are a tenth shorter than what the clients wait."""
_BUILT_IN: Final = "builtin"
_FINDERS: Final = frozenset({"tool_search", "search_project_tools", "execute_tool"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where clients are played: the machine, the folder, the root of its project if it has one."""

    machine: Machine
    folder: Path
    root: Path | None


@dataclass(frozen=True, slots=True)
class Tools:
    """All tools and sources of the project, as its workspace server has them."""

    tools: tuple[Mapping[str, Any], ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()


def too_late(reason: Unanswered, wait_s: float, tools: Tools, place: Place) -> Problem:
    """The problem of a client that would have given up before its first list."""
    slow = ", ".join(
        str(source.get("namespace")) for source in tools.sources if source.get("state") in STARTING
    )
    why = f"; still starting: {slow}" if slow else ""
    text = f"{reason}{why}; it waits {wait_s:g} s"
    return Problem(Level.WARN, text, f"lmtb servers --cwd {shlex.quote(str(place.root or place.folder))}")


def late(view: Seen, wait_s: float, tools: Tools, profile: ClientProfile, place: Place) -> Iterator[Problem]:
    """A list that takes longer than the client waits, and servers whose tools are not in it yet."""
    here = shlex.quote(str(place.root or place.folder))
    if view.seconds > wait_s * _TOLERANCE:
        text = f"its first list took {view.seconds:.1f} s, but it waits for {wait_s:g} s only"
        yield Problem(Level.WARN, text, f"start the project's server first: lmtb tools --cwd {here}")
    prefixes = {_prefix(name) for name in view.tools}
    after = "they follow as a list change"
    if profile.hears_list_changed == "never":
        after = "it never lists again; until then: tool_search and execute_tool"
    starting = (str(source.get("namespace")) for source in tools.sources if source.get("state") in STARTING)
    for own in starting:
        if own in prefixes:
            continue
        text = f"the tools of {own} come late: the server is still starting; {after}"
        yield Problem(Level.WARN, text, f"lmtb servers --cwd {here}")


def _prefix(name: str) -> str:
    return name.partition("__")[0]


def twice(
    view: Seen, configuration: ClientConfiguration, cure: Callable[[Configured], str]
) -> Iterator[Problem]:
    """Servers that the client has itself, and whose tools it has from us as well.

    Args:
        cure: says how the client is kept from starting a server.
    """
    for own in configuration.others:
        count = sum(_prefix(tool) == namespace_of(own.name) for tool in view.tools)
        if count:
            what = f"{count} tool{'s' * (count > 1)} of {own.name}"
            text = f"it sees {what} twice: it starts this server itself ({own.where})"
            yield Problem(Level.WARN, text, cure(own))


def summary(view: Seen, tools: Tools, place: Place) -> str:
    """One line: how many tools, whose, in which project."""
    names_of = ((str(tool.get("name")), str(tool.get("source"))) for tool in tools.tools)
    # some clients get names with one `_` as separator
    source_of = {spelt: source for name, source in names_of for spelt in (name, name.replace("__", "_", 1))}
    counts = Counter(_origin(name, source_of) for name in view.tools)
    parts = ", ".join(f"{count} {origin}" for origin, count in counts.items())
    where = (
        "no project" if view.workspace is None else f"{place.root or view.workspace}, found by {view.source}"
    )
    word = "tool" if len(view.tools) == 1 else "tools"
    return f"{len(view.tools)} {word} ({parts or 'none'}) in {view.seconds:.1f} s; {where}"


def _origin(name: str, source_of: Mapping[str, str]) -> str:
    if name in names.MANAGER_TOOL_NAMES:
        return "of the manager"
    source = source_of.get(name)
    if source is None:
        return "to find others" if name in _FINDERS else "others"
    return "built in" if source == _BUILT_IN else f"of {source}"
