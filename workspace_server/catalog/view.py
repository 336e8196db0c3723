"""What one request may call and what it is shown: policy, visibility and mode. Pure.

A tool that is not listed can still be called by its name as long as it is in the view; what is not in the
view does not exist for a client, however it is asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from protocol import headers
from protocol.issues import Issue
from workspace_server import naming
from workspace_server.catalog import schema_defaults
from workspace_server.catalog.listing import is_wanted
from workspace_server.catalog.registry import OfferedTool, Snapshot
from workspace_server.config import policy
from workspace_server.config.model import Configuration
from workspace_server.source import Source
from workspace_server.tool import Visibility
from workspace_server.tool_search.definitions import EXECUTE_TOOL, TOOL_SEARCH
from workspace_server.trust.item import trust_command

Kind = Literal["tools", "prompts", "resources"]
"""What clients hear of when it changed; templates are among the resources."""
META_TOOLS: Final[tuple[Mapping[str, Any], ...]] = (EXECUTE_TOOL, TOOL_SEARCH)


class Mode(Enum):
    """What a request wants listed."""

    NORMAL = "normal"
    DISCOVERY = "discovery"
    SHOW_ALL = "show-all"


_SHOWN: Final[Mapping[Mode, frozenset[Visibility]]] = {
    Mode.NORMAL: frozenset({"native", "always"}),
    Mode.DISCOVERY: frozenset({"always"}),
    Mode.SHOW_ALL: frozenset({"native", "always", "ondemand"}),
}


_SETTLED: Final = frozenset({"ready", "disabled", "pending_trust"})
"""States of a source without tools that has nothing more to say."""


@dataclass(frozen=True, slots=True)
class View:
    """The callable tools at one moment, in list order.

    Attributes:
        snapshot, configuration: what it was made of.
        hidden: every other tool by name, and why it cannot be called.
        issues: those of the snapshot and of the configuration.
    """

    snapshot: Snapshot = field(default_factory=Snapshot)
    configuration: Configuration = field(default_factory=Configuration)
    tools: tuple[OfferedTool, ...] = ()
    by_name: Mapping[str, OfferedTool] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()

    def get(self, name: str) -> OfferedTool | None:
        """The callable tool of exactly this name."""
        return self.by_name.get(name)

    def hidden_behind(self, name: str) -> tuple[Source, str] | None:
        """The source that may have a tool it does not list, and that tool's own name.

        None where the name has no such source, or its configuration or the policy rules the tool out.
        """
        if name in self.hidden or name in self.by_name or self._is_internal(name):
            return None
        named = [
            (len(prefix), source, name.removeprefix(prefix))
            for source in self.snapshot.sources
            if source.forwards and (prefix := naming.prefix_of(source)) and name.startswith(prefix)
        ]
        _, source, own = max(named, key=lambda one: one[0], default=(0, None, ""))
        if source is None or not own or not is_wanted(source, own):
            return None
        return None if policy.hidden({name: source.default}, self.configuration.deltas) else (source, own)

    def unlisted_source(self, name: str, kind: Kind = "tools") -> Source | None:
        """The source that would have a tool or prompt of this name, if it has not said yet which it has."""
        if self._is_internal(name) or name in self.hidden:
            return None
        known = self.snapshot.tools if kind == "tools" else self.snapshot.offerings.prompts
        listed = {offered.source.id for offered in known}
        named = [
            (len(prefix), source)
            for source in self.snapshot.sources
            if source.id not in listed
            and source.state not in _SETTLED
            and ((prefix := naming.prefix_of(source)) or naming.is_bare(source))
            and name.startswith(prefix)
        ]
        return max(named, key=lambda one: one[0], default=(0, None))[1]

    def waits_for(self, name: str) -> str | None:
        """The path to trust before this name can be called; internal names wait for nothing."""
        if self._is_internal(name):
            return None
        waiting = [source for source in self.snapshot.sources if source.state == "pending_trust"]
        for source in waiting:
            if (prefix := naming.prefix_of(source)) and name.startswith(prefix):
                return source.trust_path
        if name in self.snapshot.withheld or name in self.by_name or name in self.hidden:
            return self.snapshot.withheld.get(name)
        # any name can be one of a server whose tools keep their own; one that is nearly right is mistyped
        bare = next((source for source in waiting if naming.is_bare(source)), None)
        return None if bare is None or self.nearest(name) else bare.trust_path

    def nearest(self, name: str) -> list[str]:
        """Up to five callable names that resemble this one, best first; none for internal ones."""
        if self._is_internal(name):
            return []
        folded = {known.lower(): known for known in self.by_name}
        found = difflib.get_close_matches(name.lower()[:128], folded, n=5, cutoff=0.5)
        return [folded[match] for match in found]

    def listed(self, mode: Mode) -> list[Mapping[str, Any]]:
        """The definitions that `tools/list` shows in this mode, in list order."""
        shown = _SHOWN[mode]
        definitions = [offered.definition for offered in self.tools if offered.tool.visibility in shown]
        if mode is Mode.DISCOVERY or (mode is Mode.NORMAL and self._has_on_demand):
            definitions.extend(META_TOOLS)
            definitions.sort(key=lambda definition: naming.sort_key(definition["name"]))
        return definitions

    def _is_internal(self, name: str) -> bool:
        return naming.is_internal_tool(name, self.configuration.internal_prefix)

    @property
    def _has_on_demand(self) -> bool:
        return any(offered.tool.visibility == "ondemand" for offered in self.tools)

    def differences(self, other: View) -> frozenset[Kind]:
        """The lists that the two show differently in some mode."""
        mine, theirs = self._lists(), other._lists()
        return frozenset(kind for kind, shown in mine.items() if shown != theirs[kind])

    def _lists(self) -> Mapping[Kind, object]:
        extras = self.snapshot.offerings
        described = [(one.name, one.tool.description) for one in self.tools]  # each is a resource as well
        return {
            "tools": [(one.definition, one.tool.visibility) for one in self.tools],
            "prompts": [one.definition for one in extras.prompts],
            "resources": (described, [one.definition for one in (*extras.resources, *extras.templates)]),
        }


def mode_of(header: Mapping[str, str], query: Mapping[str, str]) -> Mode:
    """The mode of one request: a header that is present hides its query member.

    Args:
        header: the request's headers, case-insensitive.
        query: the decoded query members.
    """
    said = [
        (header[name] if name in header else query.get(member, "")).strip().lower()
        for name, member in headers.TOOL_MODES.items()
    ]
    if said[0] == "discovery":
        return Mode.DISCOVERY
    return Mode.SHOW_ALL if said[1] == "true" else Mode.NORMAL


def look(snapshot: Snapshot, configuration: Configuration) -> View:
    """The view of a snapshot under a configuration."""
    defaults = {offered.name: offered.source.default for offered in snapshot.tools}
    hidden = dict(policy.hidden(defaults, configuration.deltas))
    for name in snapshot.by_name:
        if naming.is_internal_tool(name, configuration.internal_prefix):
            hidden[name] = "internal: it is never offered to clients"
    for name, source in snapshot.filtered.items():
        hidden.setdefault(name, f"left out by include or exclude of source {source.id}")
    for name, path in snapshot.withheld.items():
        if name not in snapshot.by_name:  # what waits takes no name away
            hidden.setdefault(name, f"waits for trust: {trust_command(path)}")
    visible = [offered for offered in snapshot.tools if offered.name not in hidden]
    tools, issues = schema_defaults.apply(visible, configuration.schema_defaults)
    return View(
        snapshot,
        configuration,
        tuple(tools),
        {offered.name: offered for offered in tools},
        hidden,
        (*snapshot.issues, *configuration.issues, *issues),
    )


def counts(tools: Sequence[OfferedTool]) -> dict[str, int]:
    """How many of these tools each source has, by source id."""
    found: dict[str, int] = {}
    for offered in tools:
        found[offered.source.id] = found.get(offered.source.id, 0) + 1
    return found
