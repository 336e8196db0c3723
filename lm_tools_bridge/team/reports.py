"""Describes the membership for people and programs: its state, and what the team offers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec

from lm_tools_bridge.team.calls.exposure import digest_of
from lm_tools_bridge.team.member import Member
from lm_tools_bridge.team.membership import OwnOffer
from lm_tools_bridge.team.own_manager import Unusable
from lm_tools_bridge.team.registry.bucket import RegistryFault
from lm_tools_bridge.team.registry.entry import AliveEntry
from lm_tools_bridge.team.registry.view import Offered

MOST_SHOWN: Final = 200
"""Offers in one answer; a narrower pattern shows the others."""


def status(member: Member) -> dict[str, Any]:
    """The state of the membership, without anything secret."""
    held, view = member.membership, member.reader.view
    stale = view.stale_for(time.monotonic())
    gate = member.host_calls.gate
    return {
        "joined": True,
        "name": held.name,
        "zone": held.zone,
        "connected": member.connection.is_up,
        "server": member.connection.server,
        "error": member.connection.error or member.reader.error or member.publisher.error,
        "registry": {
            "listed": view.is_listed,
            "hosts": len(view),
            "staleSeconds": None if stale is None else round(stale, 1),
            "ignored": dict(list(view.ignored.items())[:20]),
        },
        "offers": [
            {"name": entry.name, "kind": entry.kind, "policy": entry.policy, "root": entry.root,
             "include": entry.include, "exclude": entry.exclude}
            for entry in held.offers
        ],
        "uses": [_use(member, entry) for entry in held.uses],
        "callsOfOthers": {"inFlight": gate.in_flight, "capacity": gate.capacity, "draining": gate.is_draining,
                          "answered": dict(member.host_calls.answered)},
        "ownCalls": dict(member.calls.in_flight),
    }  # fmt: skip


async def offers(member: Member, pattern: str) -> dict[str, Any]:
    """What the team offers: names that contain a text, with their hosts and whether these are there.

    Args:
        pattern: in lower case; "" for all.
    """
    view = member.reader.view
    names = view.names(pattern)
    team_offers = view.offers(names[:MOST_SHOWN])
    alive: Mapping[str, AliveEntry] | None = None
    if member.connection.is_up:
        try:
            hosts = {entry.host.host for offered in team_offers for entry in offered.providers}
            alive = await member.reader.alive(member.connection.client, hosts)
        except RegistryFault:
            alive = None
    stale = view.stale_for(time.monotonic())
    return {
        "offers": [_offered(entry, alive, member.membership.name) for entry in team_offers],
        "omitted": max(0, len(names) - MOST_SHOWN),
        "staleSeconds": None if stale is None else round(stale, 1),
    }


async def preview(member: Member, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The tools that an offer would expose, and their digest; or `problem`, for people."""
    try:
        offer = msgspec.convert(payload, OwnOffer)
        tools = await member.own.tools(offer, member.membership.name)
    except (msgspec.ValidationError, Unusable) as error:
        return {"problem": str(error)}
    except aiohttp.ClientError as error:
        return {"problem": f"the workspace does not answer: {error}"}
    return {"tools": sorted(tools), "digest": digest_of(tools)}


def _use(member: Member, use: Any) -> dict[str, Any]:
    providers = [host.host.host for host in member.reader.view.providers(use.offer)]
    accepted = providers if use.hosts is None else [host for host in providers if host in use.hosts]
    return {
        "offer": use.offer,
        "namespace": use.namespace,
        "hosts": accepted,
        "notAccepted": [host for host in providers if host not in accepted],
    }


def _offered(offered: Offered, alive: Mapping[str, AliveEntry] | None, own: str) -> dict[str, Any]:
    first = offered.providers[0].offer
    return {
        "name": offered.name,
        "kind": first.kind,
        "title": first.title,
        "tools": first.tools,
        "uniform": offered.is_uniform,
        "hosts": [_host(provider, alive, own) for provider in offered.providers],
    }


def _host(provider: Any, alive: Mapping[str, AliveEntry] | None, own: str) -> dict[str, Any]:
    host, offer = provider
    beat = None if alive is None else alive.get(host.host)
    state = (
        "unknown" if alive is None else "gone" if beat is None else "draining" if beat.draining else "ready"
    )
    members: dict[str, Any] = msgspec.to_builtins(offer)
    return {
        "host": host.host,
        "own": host.host == own,
        "zone": host.zone,
        "state": state,
        "inFlight": None if beat is None else beat.in_flight,
        "capacity": host.capacity,
        **{name: members[name] for name in ("policy", "repository", "revision", "digest", "tools")},
    }
