"""Adds the verb `lmtb uninstall`."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "uninstall",
        "lm_tools_bridge.uninstall.verb",
        "Remove everything that this program made.",
        section="Everywhere",
        after="completion",
        synonyms=dict.fromkeys(("remove", "delete", "rm"), "uninstall"),
    ),
)
