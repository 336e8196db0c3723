"""Adds the verb `lmtb doctor`."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "doctor",
        "lm_tools_bridge.doctor.verb",
        "Check the installation, and say what to do.",
        section="Everywhere",
        after="secrets",
        for_anyone=("doctor", "doctor env"),
        synonyms=dict.fromkeys(("check", "health", "diagnose", "debug"), "doctor"),
    ),
)
