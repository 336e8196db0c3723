"""Adds the verb `lmtb demo`."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "demo",
        "lm_tools_bridge.demo.tour",
        "Demonstrate every feature on sample workspaces, then clean up.",
        section="Everywhere",
        after="uninstall",
    ),
)
