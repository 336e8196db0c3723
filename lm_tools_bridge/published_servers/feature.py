"""Adds the verbs `lmtb add` and `lmtb outdated`."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "add",
        "lm_tools_bridge.published_servers.add_verb",
        "Add an MCP server of npm, PyPI or a registry, pinned.",
        section="The workspace of the current folder",
        after="servers",
        synonyms=dict.fromkeys(("install", "search", "registry"), "add SERVER, for a server"),
    ),
    Verb(
        "outdated",
        "lm_tools_bridge.published_servers.outdated_verb",
        "Show pinned MCP servers that have newer versions.",
        section="The workspace of the current folder",
        after="add",
        for_anyone=("outdated",),
        synonyms=dict.fromkeys(("update", "upgrade"), "outdated, for servers"),
    ),
)
