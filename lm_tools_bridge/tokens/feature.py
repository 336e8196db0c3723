"""Adds access tokens to the daemon, and the verb `lmtb token`."""

from __future__ import annotations

from typing import Final

from manager.features import DaemonPart, DaemonStart, Verb

VERBS: Final = (
    Verb(
        "token",
        "lm_tools_bridge.tokens.verb",
        "Make tokens for programs in containers or behind forwarded ports.",
        section="The manager",
        after="ui",
        for_anyone=("token list",),
    ),
)


def make_part(start: DaemonStart) -> DaemonPart:
    """The gate, with the tokens that exist. Blocks: it reads their file."""
    from lm_tools_bridge.tokens.part import TokensPart

    return TokensPart(start.paths, start.proof_reason)
