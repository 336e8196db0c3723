"""Members of a team without managers: a host in front of a scripted workspace, and a caller with its gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, web

from lm_tools_bridge.protocol import sse
from lm_tools_bridge.team.member import Member
from lm_tools_bridge.team.membership import Membership, OwnOffer, Use
from support.clients.stateless_requests import body_of, headers_of
from support.servers.scripted.scripted_workspace import ScriptedWorkspace, scripted_workspace, served

GUARD_S = 30.0


@dataclass
class TeamHost:
    """A member that offers `docs`."""

    member: Member
    workspace: ScriptedWorkspace


@dataclass
class TeamCaller:
    """A member that uses `docs`."""

    member: Member
    http: ClientSession
    url: str

    async def answer(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """The JSON-RPC response to a request; of events, the last one."""
        body = body_of(method, params, **meta)
        async with self.http.post(
            self.url, data=json.dumps(body), headers=headers_of(body, None)
        ) as response:
            raw = await response.read()
            if response.content_type == "text/event-stream":
                raw = sse.Decoder(64 * 1024 * 1024).feed(raw)[-1].data
        answer: dict[str, Any] = json.loads(raw)
        return answer

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The response to a call of a tool."""
        return await self.answer("tools/call", {"name": name, "arguments": arguments})


@contextlib.asynccontextmanager
async def team_host(
    servers: tuple[str, ...], name: str, *, capacity: int = 32, zone: str = "", **files: Any
) -> AsyncIterator[TeamHost]:
    """A host that is in the registry, for as long as the block lasts."""
    async with scripted_workspace() as workspace:
        offers = (OwnOffer("docs", "/nowhere", policy="all"),)
        held = Membership(servers=servers, name=name, capacity=capacity, zone=zone, offers=offers, **files)
        async with running_member(held, workspace.url) as member:
            await until_published(member)
            yield TeamHost(member, workspace)


@contextlib.asynccontextmanager
async def team_caller(
    servers: tuple[str, ...], name: str = "caller", hosts: tuple[str, ...] | None = None, **files: Any
) -> AsyncIterator[TeamCaller]:
    """A caller whose view is complete, for as long as the block lasts."""
    use = Use("docs", "docs", hosts)
    held = Membership(servers=servers, name=name, uses=(use,), **files)
    async with running_member(held, "http://127.0.0.1:9/mcp") as member:

        async def serve(request: web.Request) -> web.StreamResponse:
            return await member.gateway.serve(request, use)

        async with served("/team/docs", serve) as url, ClientSession() as http:
            async with asyncio.timeout(GUARD_S):
                await member.ready.wait()
            yield TeamCaller(member, http, url)


@contextlib.asynccontextmanager
async def running_member(membership: Membership, address: str) -> AsyncIterator[Member]:
    """A member for as long as the block lasts."""
    member = Member(membership, address, "1.0.0")
    member.start()
    try:
        yield member
    finally:
        await member.close()


async def until_published(member: Member) -> None:
    """Wait until the host is in its own view of the registry, and its heartbeat was stored."""
    async with asyncio.timeout(GUARD_S):
        await member.ready.wait()
        while not member.publisher.is_published:
            await asyncio.sleep(0.02)


async def until_seen(member: Member, *hosts: str) -> None:
    """Wait until a member sees exactly these hosts of `docs`."""
    async with asyncio.timeout(GUARD_S):
        while sorted(one.host.host for one in member.reader.view.providers("docs")) != sorted(hosts):
            await asyncio.sleep(0.02)
