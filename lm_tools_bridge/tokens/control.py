"""Serves the control socket's part of `lmtb token`: a changed file of tokens takes effect at once."""

from __future__ import annotations

import asyncio

from lm_tools_bridge.tokens.gate import TokenGate
from manager.http import lazy_aiohttp as web
from manager.logs.log import logger
from manager.sessions.session_manager import SessionManager


class TokenControl:
    """Applies changes of tokens."""

    def __init__(self, gate: TokenGate, session_manager: SessionManager) -> None:
        self._gate = gate
        self._session_manager = session_manager

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [web.post("/tokens/reload", self._reload)]

    async def end_revoked(self) -> tuple[int, int]:
        """End what used tokens that are revoked or have expired: how many connections and sessions."""
        ended = self._gate.end_revoked()
        sessions = [self._session_manager.get(one, uses=False) for one in ended.sessions]
        live = [one for one in sessions if one is not None]
        for session in live:
            await self._session_manager.end(session)
        if ended.connections or live:
            logger().info("tokens.ended", connections=ended.connections, sessions=len(live))
        return ended.connections, len(live)

    async def _reload(self, _: web.Request) -> web.Response:
        await asyncio.to_thread(self._gate.load)
        if self._gate.problem is not None:
            logger().error("tokens.unusable", why=self._gate.problem, until_then="no token is valid")
        connections, sessions = await self.end_revoked()
        members = {"connections": connections, "sessions": sessions, "problem": self._gate.problem}
        return web.json_response({"ok": True, "required": self._gate.is_required, **members})
