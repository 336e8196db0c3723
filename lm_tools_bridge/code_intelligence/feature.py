"""Adds the verb `lmtb languages`."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "languages",
        "lm_tools_bridge.code_intelligence.languages_verb",
        "List its language servers, and what is missing.",
        section="The workspace of the current folder",
        after="servers",
        for_anyone=("languages",),
    ),
)
