"""Adds the verbs `lmtb languages` and `lmtb hook`."""

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
    Verb(
        "hook",
        "lm_tools_bridge.code_intelligence.edit_hook",
        "What coding agents run after edits.",
        section="Everywhere",
        after="client",
        for_anyone=("hook post-edit",),
    ),
)
