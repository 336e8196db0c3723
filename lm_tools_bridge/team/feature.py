"""Adds the membership in a team to the daemon, and the verb `lmtb team`."""

from __future__ import annotations

from typing import Final

from manager import __version__
from manager.features import DaemonPart, DaemonStart, Verb

VERBS: Final = (
    Verb(
        "team",
        "lm_tools_bridge.team.verb",
        "Share workspaces and servers with a team.",
        section="Everywhere",
        after="client",
        for_anyone=("team offers", "team status"),
    ),
)


def make_part(start: DaemonStart) -> DaemonPart:
    """The team of this manager's user, if there is one."""
    from lm_tools_bridge.team.team import Team

    paths = start.paths
    return Team(paths.config_dir, paths.runtime_dir, start.address, __version__)
