"""Adds the verb `lmtb top`."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "top",
        "lm_tools_bridge.top.verb",
        "Watch calls, servers and clients live.",
        section="The manager",
        after="status",
        for_anyone=("top",),
        synonyms=dict.fromkeys(("ps", "monitor", "watch"), "top"),
    ),
)
