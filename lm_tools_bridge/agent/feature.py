"""Adds the verb `lmtb agent`, which runs the terminal agent, a program of its own."""

from __future__ import annotations

from typing import Final

from manager.features import Verb

VERBS: Final = (
    Verb(
        "agent",
        "lm_tools_bridge.agent.verb",
        "Talk to a model that uses its tools.",
        section="The workspace of the current folder",
        after="call",
        for_anyone=("agent", "agent acp", "agent list", "agent serve"),
        for_anyone_if={"agent config": lambda given: given["as_json"] and not given["imported"]},
    ),
)


def run_quickly() -> None:
    """Become a session of the agent; returns if the verb itself has to run, which tells why it cannot."""
    from lm_tools_bridge.agent.replacing import start_session

    start_session()
