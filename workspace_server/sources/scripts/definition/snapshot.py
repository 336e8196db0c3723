"""Collects the script tools of one moment: offered tools, tools that wait for trust, and issues. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.results import clean_text, well_formed
from workspace_server.sources.scripts.definition.folders import Walk
from workspace_server.sources.scripts.definition.script import Script
from workspace_server.tool import Tool
from workspace_server.trust.item import TrustItem, Verdict, trust_command

_CATEGORIES: Final = {"TRUST_PENDING": "trust", "TOOL_NAME_CLASH": "names"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All tools at one moment.

    Attributes:
        scripts: the scripts that can be called, by name.
        tools: the definitions of these scripts.
        pending: names of tools that wait for trust.
        items: everything that a user can trust.
        issues: the problems found.
    """

    scripts: Mapping[str, Script] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    pending: frozenset[str] = frozenset()
    items: tuple[TrustItem, ...] = ()
    issues: tuple[Issue, ...] = ()


class Draft:
    """Builds a `Snapshot`. `trust_path` is the folder for the `lmtb trust` command in messages."""

    def __init__(self, trust_path: str) -> None:
        self._command = trust_command(trust_path)
        self._scripts: dict[str, Script] = {}
        self._pending: set[str] = set()
        self._items: list[TrustItem] = []
        self._issues: list[Issue] = []

    def warn(self, code: str, message: str, tool_name: str | None = None, details: str | None = None) -> None:
        """Add a warning."""
        category = _CATEGORIES.get(code, "script")
        self._issues.append(Issue("warning", category, code, well_formed(message), tool_name, details))

    def note_walk(self, walk: Walk, place: str) -> None:
        """Add a warning for everything that a walk left out."""
        for relative, reason in walk.skipped:
            self.warn("SCRIPT_TOOL_INVALID", f"{place}/{clean_text(relative)} is left out: {reason}")
        if not walk.complete:
            text = f"{place} has more folders, tools or bytes than are read; the rest is left out"
            self._issues.append(Issue("error", "tools/list", "TOOL_LIST_TRUNCATED", well_formed(text)))

    def invalid(self, place: str, reason: str) -> None:
        """Add a warning about a folder whose tool is invalid."""
        self.warn("SCRIPT_TOOL_INVALID", f"The script tool in {place} is left out: {reason}")

    def add(self, script: Script, verdict: Verdict) -> None:
        """Add a tool: offered, pending trust, or left out because an earlier tool has its name."""
        name = script.manifest.name
        self._items.append(script.item)
        if verdict != "trusted":
            self._pending.add(name)
            why = "was never trusted" if verdict == "never" else "has changed since it was trusted"
            self.warn("TRUST_PENDING", f'The script tool "{name}" {why}', name, self._command)
        elif name in self._scripts:
            owner = self._scripts[name].item.key.removeprefix("script:")
            self.warn("TOOL_NAME_CLASH", f'Two script tools are named "{name}"', name, f"{owner} keeps it")
        else:
            self._scripts[name] = script
            if unknown := script.manifest.unknown:
                text = f'tool.toml of "{name}" has unknown keys: {", ".join(unknown)}'
                self.warn("SCRIPT_TOML_UNKNOWN_KEY", text, name)

    def done(self) -> Snapshot:
        """Return the snapshot."""
        tools = tuple(script.tool for script in self._scripts.values())
        return Snapshot(
            self._scripts, tools, frozenset(self._pending), tuple(self._items), tuple(self._issues)
        )
