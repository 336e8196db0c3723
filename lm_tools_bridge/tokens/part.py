"""Adds access tokens to the daemon: the gate, and a route that applies a changed file of tokens at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from lm_tools_bridge.text.redaction import hide
from lm_tools_bridge.tokens.gate import TokenGate
from lm_tools_bridge.tokens.token_file import remove_own_token, renew_own_token
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings
from manager.features import AddedRoutes, DaemonPart, DaemonParts
from manager.guests import GuestGate
from manager.http import lazy_aiohttp as web
from manager.logs.log import logger
from manager.sessions.session_manager import SessionManager

EXPIRY_S: Final = 5.0
"""How often open connections and sessions of expired tokens are ended; requests are refused at once."""


class TokensPart(DaemonPart):
    """The tokens of one manager."""

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self._gate = _make_gate(settings, paths)
        self._session_manager: SessionManager | None = None

    def connect(self, parts: DaemonParts) -> None:
        """End sessions of revoked tokens here."""
        self._session_manager = parts.session_manager

    def guest_gate(self) -> GuestGate:
        """The gate."""
        return self._gate

    async def run(self) -> None:
        """End what used tokens that have expired, until cancelled."""
        while True:
            await self.end_revoked()
            await asyncio.sleep(EXPIRY_S)

    def control_routes(self) -> AddedRoutes:
        """The route of `lmtb token`."""
        return AddedRoutes([web.post("/tokens/reload", self._reload)])

    async def end_revoked(self) -> tuple[int, int]:
        """End what used tokens that are revoked or have expired: how many connections and sessions."""
        ended = self._gate.end_revoked()
        session_manager = self._session_manager
        count = 0 if session_manager is None else await _end_sessions(ended.sessions, session_manager)
        if ended.connections or count:
            logger().info("tokens.ended", connections=ended.connections, sessions=count)
        return ended.connections, count

    async def _reload(self, _: web.Request) -> web.Response:
        await asyncio.to_thread(self._gate.load)
        _log_problem(self._gate)
        connections, sessions = await self.end_revoked()
        members = {"connections": connections, "sessions": sessions, "problem": self._gate.problem}
        return web.json_response({"ok": True, "required": self._gate.is_required, **members})


async def _end_sessions(identities: Iterable[str], session_manager: SessionManager) -> int:
    """End the sessions that there still are; returns how many."""
    sessions = [session_manager.get(identity, uses=False) for identity in identities]
    live = [session for session in sessions if session is not None]
    for session in live:
        await session_manager.end(session)
    return len(live)


def _make_gate(settings: Settings, paths: Paths) -> TokenGate:
    own = None
    if settings.require_token:
        own = renew_own_token(paths.runtime_dir, paths.former_dirs)
        hide(own)
    else:
        remove_own_token(paths.runtime_dir)
    gate = TokenGate(paths.tokens_file, required=settings.require_token, own=own)
    gate.load()
    _log_problem(gate)
    return gate


def _log_problem(gate: TokenGate) -> None:
    if gate.problem is not None:
        logger().error("tokens.unusable", why=gate.problem, until_then="no token is valid")
