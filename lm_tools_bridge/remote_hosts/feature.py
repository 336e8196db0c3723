"""Adds projects on other hosts to the daemon, and the verb `lmtb remote`."""

from __future__ import annotations

import sys
from typing import Final

from manager.features import DaemonPart, DaemonStart, ReachedHost, Verb

VERBS: Final = (
    Verb(
        "remote",
        "lm_tools_bridge.remote_hosts.cli.verb",
        "Reach projects on other hosts, over ssh and in containers.",
        section="Everywhere",
        after="connect",
        for_anyone=("remote list", "remote serve", "remote status"),
    ),
)


def find_host(address: str) -> tuple[ReachedHost, str]:
    """The host that an address names, and the folder there."""
    from lm_tools_bridge.remote_hosts.cli.hosts import find_host

    return find_host(address)


def make_part(_: DaemonStart) -> DaemonPart:
    """The projects on other hosts of this manager's user."""
    from lm_tools_bridge.remote_hosts.daemon_part import RemoteHostsPart

    return RemoteHostsPart()


def run_quickly() -> None:
    """Serve a line: each new one waits for this verb."""
    from lm_tools_bridge.remote_hosts.cli import serving

    sys.exit(serving.serve_line())
