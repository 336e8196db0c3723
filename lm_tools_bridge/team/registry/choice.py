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
    accepted_providers = [
        provider for provider in providers if accepted is None or provider.host.host in accepted
    ]
    return sorted(accepted_providers, key=lambda provider: _nearness(provider, me))[:MOST_CANDIDATES]


def ordered(
    providers: Sequence[Provider],
    alive: Mapping[str, AliveEntry],
    mine: Mapping[str, int],
    me: Caller,
) -> list[str] | Lack:
    """The hosts that can take a call, best first: own zone, then the smallest part of its capacity in use.

    Args:
        providers: the candidates.
        alive: the last heartbeat of each; a host without one counts as dead.
        mine: calls of this member in flight at each host, which its heartbeat may not show yet.
        me: the caller.
    """
    living = [provider for provider in providers if provider.host.host in alive]
    if not living:
        return "dead" if providers else "unknown"
    willing = [provider for provider in living if not alive[provider.host.host].draining]
    if not willing:
        return "draining"
    used = {provider.host.host: _used(provider, alive[provider.host.host], mine) for provider in willing}
    free = [provider for provider in willing if used[provider.host.host] < 1]
    if not free:
        return "full"
    best = sorted(
        free,
        key=lambda provider: (
            provider.host.zone != me.zone,
            used[provider.host.host],
            _nearness(provider, me),
        ),
    )
    return [provider.host.host for provider in best]


def _used(provider: Provider, alive: AliveEntry, mine: Mapping[str, int]) -> float:
    return max(alive.in_flight, mine.get(provider.host.host, 0)) / provider.host.capacity


def _nearness(provider: Provider, me: Caller) -> tuple[bool, bytes]:
    digest = hashlib.blake2b(f"{me.host}\0{provider.host.host}".encode(), digest_size=8).digest()
    return provider.host.zone != me.zone, digest
