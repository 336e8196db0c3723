"""Answers a session's `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe` requests.

Both preferences are saved with the session. `answers/upstream_request.py` sends the log level with each
request; `upstream_subscriptions.py` sends the subscriptions with the listen stream.
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from manager.answers import replies
from manager.answers.exchange import Exchange, Located
from manager.answers.replies import Plain
from manager.answers.workspace_lookup import look_up_workspace, workspace_not_set
from manager.routing.state.session_table import Session
from manager.sessions.session_manager import MAX_SUBSCRIPTIONS, SessionManager
from manager.sessions.upstream_subscriptions import UpstreamSubscriptions
from manager.supervision.workspaces import Workspaces

METHODS: Final = frozenset({names.SET_LEVEL, names.SUBSCRIBE, names.UNSUBSCRIBE})
CONFIRM_S: Final = 5.0
"""Seconds a workspace server has to acknowledge a subscription; after that it counts as acknowledged."""
MAX_URI: Final = 4096
"""Characters of an address. Paths of Linux have 4,096 bytes at most. A session keeps up to 256 addresses."""


class Preferences:
    """Answers the requests of a session in `METHODS`."""

    def __init__(
        self,
        session_manager: SessionManager,
        workspaces: Workspaces,
        upstream_subscriptions: UpstreamSubscriptions,
    ) -> None:
        self._session_manager = session_manager
        self._workspaces = workspaces
        self._upstream_subscriptions = upstream_subscriptions

    async def answer(self, exchange: Exchange, session: Session) -> Plain:
        """Answer with an empty result, or with an error for invalid parameters."""
        if exchange.message.method == names.SET_LEVEL:
            return await self._set_level(exchange, session)
        uri = jsonrpc.text_of(exchange.params.get("uri", b""))
        if uri is None or not 0 < len(uri) <= MAX_URI:
            return _invalid(exchange, f"expected uri, a string of at most {MAX_URI} characters")
        if exchange.message.method == names.UNSUBSCRIBE:
            await self._session_manager.unsubscribe(session, uri)
            return _done(exchange)
        return await self._subscribe(exchange, session, uri)

    async def _set_level(self, exchange: Exchange, session: Session) -> Plain:
        level = jsonrpc.text_of(exchange.params.get("level", b""))
        if level not in names.LOG_LEVELS:
            return _invalid(exchange, f"expected level, one of {', '.join(names.LOG_LEVELS)}")
        if level != session.log_level:
            session.log_level = level
            await self._session_manager.save(session)
        return _done(exchange)

    async def _subscribe(self, exchange: Exchange, session: Session, uri: str) -> Plain:
        """Answer once the workspace server has acknowledged, so that no later update is missed."""
        if exchange.server:  # all sessions of a workspace share one stream, which knows no single servers
            text = "a session at the address of one server cannot subscribe; use the address of the project"
            return _invalid(exchange, text)
        located = await look_up_workspace(self._workspaces, exchange.claims)
        if isinstance(located, Refusal):
            return replies.refuse(exchange, located)
        exchange.decided(located)
        if not isinstance(located, Located):
            return replies.refuse(exchange, workspace_not_set(located))
        instance = await self._workspaces.ready(located.workspace, is_pure=located.is_pure)
        if isinstance(instance, Refusal):
            return replies.refuse(exchange, instance)
        if not await self._session_manager.subscribe(session, uri, located.workspace.id):
            return _invalid(exchange, f"a session can subscribe to at most {MAX_SUBSCRIPTIONS} resources")
        if await self._upstream_subscriptions.honours(located.workspace.id, uri, CONFIRM_S) is False:
            await self._session_manager.unsubscribe(session, uri)
            return _invalid(exchange, f"this resource cannot be subscribed: {uri[:200]}")
        return _done(exchange)


def _done(exchange: Exchange) -> Plain:
    return Plain(jsonrpc.result(exchange.message.id, {}))


def _invalid(exchange: Exchange, text: str) -> Plain:
    return Plain(jsonrpc.error(exchange.message.id, jsonrpc.INVALID_PARAMS, text))
