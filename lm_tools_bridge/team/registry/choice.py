"""Chooses which hosts of an offer get a call, and in which order they are tried. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lm_tools_bridge.team.registry.entry import AliveEntry
from lm_tools_bridge.team.registry.view import Provider

MOST_CANDIDATES: Final = 16
"""Hosts of one offer whose heartbeats are looked at; others are not needed to find a free one."""
Lack = Literal["unknown", "dead", "draining", "full"]
"""Why no host can take a call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: its name spreads callers over hosts that are otherwise equal."""

    host: str
    zone: str = ""


def candidates(providers: Sequence[Provider], accepted: Collection[str] | None, me: Caller) -> list[Provider]:
    """The hosts to look at: those the user accepted, own zone first, in an order that differs by caller.

    Args:
        accepted: names of hosts, or None for any host.
    """
    wanted = [one for one in providers if accepted is None or one.host.host in accepted]
    return sorted(wanted, key=lambda one: _nearness(one, me))[:MOST_CANDIDATES]


def ordered(
    found: Sequence[Provider],
    alive: Mapping[str, AliveEntry],
    mine: Mapping[str, int],
    me: Caller,
) -> list[str] | Lack:
    """The hosts that can take a call, best first: own zone, then the smallest part of its capacity in use.

    Args:
        found: the candidates.
        alive: the last heartbeat of each; a host without one counts as dead.
        mine: calls of this member in flight at each host, which its heartbeat may not show yet.
        me: the caller.
    """
    living = [one for one in found if one.host.host in alive]
    if not living:
        return "dead" if found else "unknown"
    willing = [one for one in living if not alive[one.host.host].draining]
    if not willing:
        return "draining"
    used = {one.host.host: _used(one, alive[one.host.host], mine) for one in willing}
    free = [one for one in willing if used[one.host.host] < 1]
    if not free:
        return "full"
    best = sorted(free, key=lambda one: (one.host.zone != me.zone, used[one.host.host], _nearness(one, me)))
    return [one.host.host for one in best]


def _used(one: Provider, alive: AliveEntry, mine: Mapping[str, int]) -> float:
    return max(alive.in_flight, mine.get(one.host.host, 0)) / one.host.capacity


def _nearness(one: Provider, me: Caller) -> tuple[bool, bytes]:
    digest = hashlib.blake2b(f"{me.host}\0{one.host.host}".encode(), digest_size=8).digest()
    return one.host.zone != me.zone, digest
