"""The team of this manager's user, if there is one: joined, changed and left while the manager runs.

Nothing of NATS is imported before a team is joined.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.machine.blocked_import import import_unblocked
from lm_tools_bridge.machine.own_distribution import command_adding
from lm_tools_bridge.machine.own_token import own_headers
from manager.admin.control.control_messages import read_body
from manager.features import AddedRoutes, DaemonPart
from manager.http import lazy_aiohttp as web
from manager.log import logger

if TYPE_CHECKING:
    from lm_tools_bridge.team.member import Member
    from lm_tools_bridge.team.membership import Membership

FILE_NAME: Final = "team.json"
DRAIN_S: Final = 20.0
"""Less than the 30 s in which a manager that stops lets its own calls end."""
FOR_ANYONE: Final = frozenset({"GET /team", "GET /team/offers", "POST /team/{offer}"})
"""The routes that decide nothing: calls of offers, and what is there."""
_MAX_BODY: Final = 64 * 1024
"""The verb sends one offer with its patterns."""
_BODY_S: Final = 10.0
"""A verb on this machine sends its few bytes at once."""


class Team(DaemonPart):
    """What the manager has of a team. All methods may be called whether a team was joined or not."""

    def __init__(self, config_dir: Path, runtime_dir: Path, address: str, version: str) -> None:
        """`address` is the URL of this manager's MCP endpoint."""
        self._config_dir, self._runtime_dir = config_dir, runtime_dir
        self._address, self._version = address, version
        self._member: Member | None = None
        self._error: str | None = None
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Be in the team of the last time, and in those that are joined, until this is cancelled."""
        try:
            if await asyncio.to_thread((self._config_dir / FILE_NAME).exists):
                await self.reload()
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def reload(self) -> None:
        """Follow what `team.json` says now."""
        async with self._lock:
            try:
                membership = await asyncio.to_thread(_load, self._config_dir)
                await self._follow(membership)
                self._error = None
            except ImportError as error:
                self._error = f"the extra nats is not installed; run: {command_adding('nats')}"
                logger().warning("team.not_joined", why=f"{self._error} ({error})")
            except _unreadable() as error:
                self._error = str(error)
                logger().warning("team.not_joined", why=self._error)

    async def drain(self) -> None:
        """Let the calls of others end, and take no new ones."""
        if self._member is not None:
            await self._member.drain(DRAIN_S)

    async def close(self) -> None:
        """Leave the servers; the membership stays."""
        async with self._lock:
            member, self._member = self._member, None
            if member is not None:
                await member.close()

    def status(self) -> dict[str, Any]:
        """The state of the membership."""
        if self._member is None:
            return {"joined": False, "error": self._error}
        from lm_tools_bridge.team import reports

        return reports.status(self._member)

    async def offers(self, pattern: str) -> dict[str, Any]:
        """What the team offers."""
        if self._member is None:
            return {"offers": [], "omitted": 0, "staleSeconds": None}
        from lm_tools_bridge.team import reports

        return await reports.offers(self._member, pattern.lower())

    async def preview(self, payload: dict[str, Any]) -> dict[str, Any]:
        """What members could call if something were offered, or why that is not known."""
        if self._member is None:
            return {"problem": self._error or "no team was joined"}
        from lm_tools_bridge.team import reports

        return await reports.preview(self._member, payload)

    def port_routes(self) -> AddedRoutes:
        """The endpoints of offers."""
        return AddedRoutes([web.post("/team/{offer}", self.serve)], FOR_ANYONE)

    def control_routes(self) -> AddedRoutes:
        """The membership, and what is offered."""
        return AddedRoutes(_control_routes(self), FOR_ANYONE)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for an offer of the team; only those are served that the user uses."""
        use = None if self._member is None else self._member.membership.use(request.match_info["offer"])
        if self._member is None or use is None:
            text = "this offer of the team is not used here; use it with: lmtb team use"
            return web.json_response({"error": text}, status=404)
        return await self._member.gateway.serve(request, use)

    async def _follow(self, membership: Membership | None) -> None:
        member = self._member
        if member is not None and membership is not None and _same_team(member.membership, membership):
            member.update(membership)
            return
        if member is not None:
            self._member = None
            await member.drain(DRAIN_S)
            await member.close()
        if membership is not None:
            # needs the extra, and takes a while
            module = await asyncio.to_thread(import_unblocked, "lm_tools_bridge.team.member")
            own = await asyncio.to_thread(own_headers, self._runtime_dir)
            self._member = module.Member(membership, self._address, self._version, own)
            self._member.start()


def _control_routes(team: Team) -> list[web.RouteDef]:

    async def status(_: web.Request) -> web.Response:
        return web.json_response({"ok": True, **team.status()})

    async def offers(request: web.Request) -> web.Response:
        return web.json_response({"ok": True, **await team.offers(request.query.get("pattern", ""))})

    async def reload(_: web.Request) -> web.Response:
        await team.reload()
        return web.json_response({"ok": True, **team.status()})

    async def preview(request: web.Request) -> web.Response:
        body = await read_body(request, _MAX_BODY, _BODY_S)
        try:
            payload = json.loads(body) if isinstance(body, bytes) else None
        except (ValueError, RecursionError):
            payload = None
        answer = await team.preview(payload if isinstance(payload, dict) else {})
        if "problem" in answer:
            refused = {"ok": False, "reason": "no_preview", "message": answer["problem"]}
            return web.json_response(refused, status=409)
        return web.json_response({"ok": True, **answer})

    return [
        web.post("/team/preview", preview),
        web.get("/team", status),
        web.get("/team/offers", offers),
        web.post("/team/reload", reload),
    ]


def _load(config_dir: Path) -> Membership | None:
    from lm_tools_bridge.team.membership import load

    return load(config_dir)


def _unreadable() -> type[Exception]:
    from lm_tools_bridge.team.membership import UnreadableMembership

    return UnreadableMembership


def _same_team(old: Membership, new: Membership) -> bool:
    import msgspec

    return bool(
        msgspec.structs.replace(old, offers=(), uses=()) == msgspec.structs.replace(new, offers=(), uses=())
    )
