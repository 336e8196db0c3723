"""Adds the verbs `lmtb add` and `lmtb outdated`."""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.terminal.deciding_verbs import never_decides
from manager.features import Verb

VERBS: Final = (
    Verb(
        "add",
        "lm_tools_bridge.published_servers.add_verb",
        "Add an MCP server from npm, PyPI, an address or a registry, at a pinned version.",
        section="The workspace of the current folder",
        after="servers",
    ),
    Verb(
        "outdated",
        "lm_tools_bridge.published_servers.outdated_verb",
        "Show pinned MCP servers that have newer versions.",
        section="The workspace of the current folder",
        after="add",
        for_anyone_if={"outdated": never_decides},
    ),
)
