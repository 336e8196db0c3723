"""Answers session clients: what they POST, the streams that they GET, and the session that they DELETE.

Requests that do not concern the session itself are passed to `answers/dispatch.py`. `mcp.py` reads messages
and writes replies. If events of a stream cannot be replayed any more, a GET brings:

    server stream        notifications that all lists may have changed
    stream of a request  one event, an error: the answer is lost (47112)
    no events left       204, so that the client does not reconnect
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from lm_tools_bridge.protocol import apps_extension, headers, jsonrpc, names, sse
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import Inbound
from lm_tools_bridge.protocol.jsonrpc import Notification, Response
from lm_tools_bridge.protocol.names import ASSUMED_LEGACY, LEGACY_REVISIONS, negotiate
from manager.answers import replies, upstream_request
from manager.answers.catalog import ServerDiscover, initialize_result
from manager.answers.dispatch import Dispatch, names_workspace
from manager.answers.exchange import Exchange, Located, claims_of
from manager.answers.replies import Events, Plain, Relayed, Reply
from manager.answers.upstream_request import PreparedCall
from manager.answers.workspace_lookup import look_up_workspace
from manager.configuration.settings import Settings
from manager.forwarding.forwarded_call import begins_as_result, is_response
from manager.http.event_response import EventResponse
from manager.http.request import HttpRequest, OpenRequests
from manager.log import logger, short
from manager.routing.state.session_table import Session, is_well_formed
from manager.sessions import replay
from manager.sessions.preferences import METHODS as PREFERENCES
from manager.sessions.preferences import Preferences
from manager.sessions.replay import EventId
from manager.sessions.roots import SessionRoots
from manager.sessions.round_trips import RoundTrips
from manager.sessions.session_manager import SessionManager
from manager.sessions.streams import Stream, lost_answer
from manager.supervision.workspaces import Workspaces
from manager.waiting_calls import NOBODY, WaitingCalls

_CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "extensions": {skills.EXTENSION: skills.CAPABILITY, apps_extension.EXTENSION: {}},
    "experimental": {"codex/sandbox-state-meta": {}},
}
"""Everything that a workspace may offer, as MCP declares capabilities once, before a workspace is chosen."""
LIST_HOLD_S: Final = 0.25
"""Longest time that a response is held until its client has listed changed tools."""
_FULL_RETRY_MS: Final = 60_000
"""When a client may try again for which there was no room for a session: after `RECENT_S`, a session that is
not used any more makes room."""


class NoSession(msgspec.Struct, frozen=True):
    """The error for a request without a usable session: HTTP status and reason."""

    status: int
    reason: Reason

    def body(self, identity: bytes | None) -> bytes:
        """The JSON-RPC error, with the request's id."""
        text = "Mcp-Session-Id is missing" if self.status == 400 else "unknown session"
        return Refusal(self.reason, text).as_error(identity)


MISSING: Final = NoSession(400, Reason.MISSING_SESSION)
UNKNOWN: Final = NoSession(404, Reason.UNKNOWN_SESSION)


class SessionEndpoint:
    """Answers the messages of session clients (MCP ≤ 2025-11-25)."""

    def __init__(  # noqa: PLR0917  each answers some of the requests
        self,
        session_manager: SessionManager,
        dispatch: Dispatch,
        server_discover: ServerDiscover,
        preferences: Preferences,
        settings: Settings,
        waiting_calls: WaitingCalls = NOBODY,
    ) -> None:
        self._waiting_calls = waiting_calls
        self.session_manager = session_manager
        self._dispatch = dispatch
        self._server_discover = server_discover
        self._preferences = preferences
        self._roots = SessionRoots(session_manager, settings.roots_wait_s)
        self._limit = settings.response_limit
        self._session_limit = settings.session_limit

    # -- the session of a request -------------------------------------------------------------------------

    def session(self, identity: str | None, *, uses: bool = True) -> Session | NoSession:
        """The session that the `Mcp-Session-Id` header names.

        Args:
            identity: the value of the header.
            uses: whether this counts as a use, which extends the session's lifetime.
        """
        if identity is None:
            return MISSING
        return self.session_manager.get(identity, uses=uses) or UNKNOWN

    async def session_for(self, inbound: Inbound, identity: str | None) -> Session | NoSession | Refusal:
        """The session of a request; a handshake without a known one opens one, under its id if well-formed.

        Returns:
            The session, an error if it is missing or unknown, or a refusal if there are too many sessions.
        """
        known = self.session(identity)
        if isinstance(known, Session) or not _is_handshake(inbound):
            return known
        own_id = identity if identity is not None and is_well_formed(identity) else None
        revision = inbound.revision if inbound.revision in LEGACY_REVISIONS else ASSUMED_LEGACY
        session = await self.session_manager.open(revision or ASSUMED_LEGACY, b"", b"{}", own_id)
        if session is None:
            return too_many(self._session_limit)
        logger().info("session.recover", session=short(session.id))
        self.session_manager.get(session.id)  # the handshake is its first use
        return session

    # -- requests -----------------------------------------------------------------------------------------

    async def initialize(self, exchange: Exchange) -> Reply:
        """Open a session and answer `initialize`; a session id in the request is ignored."""
        params, began = exchange.params, time.monotonic()
        requested = jsonrpc.text_of(params["protocolVersion"]) if "protocolVersion" in params else None
        client = params.get("clientInfo", msgspec.Raw(b"{}"))
        capabilities = jsonrpc.bytes_of(params.get("capabilities", msgspec.Raw(b"{}")))
        mode = tuple(upstream_request.mode_headers(exchange).items())
        discovered = await self._server_discover.result(exchange)
        session = await self.session_manager.open(negotiate(requested), client, capabilities, mode=mode)
        if session is None:
            return replies.refuse(exchange, too_many(self._session_limit))
        session.opened_at = began
        exchange.session = session
        exchange.headers[headers.SESSION] = session.id
        if discovered is not None:
            return Plain(jsonrpc.result(exchange.message.id, initialize_result(session.revision, discovered)))
        value = {
            "protocolVersion": session.revision,
            "capabilities": _CAPABILITIES,
            "serverInfo": replies.SERVER_INFO,
            "instructions": replies.INSTRUCTIONS,
        }
        return Plain(jsonrpc.result(exchange.message.id, value))

    async def answer(self, exchange: Exchange, session: Session) -> Reply:
        """The reply to a request of a session."""
        method = exchange.message.method
        if method == names.PING:
            return Plain(jsonrpc.result(exchange.message.id, {}))
        if method == names.ROOTS_LIST or method in names.MODERN_ONLY:
            return replies.method_not_found(exchange)
        if method in names.HANDSHAKE_NAMES:
            return await self._dispatch.handshake(exchange, dict(exchange.params), bare=True)
        if exchange.wants_roots and not names_workspace(exchange):
            return Events(self._with_roots(exchange, session))
        return self._translated(exchange, session, await self._answer(exchange, session))

    async def reply_to_call(self, call: PreparedCall, session: Session) -> Reply:
        """The reply to a call that was prepared, and may be in flight."""
        return self._translated(call.exchange, session, await call.reply())

    async def _answer(self, exchange: Exchange, session: Session) -> Reply:
        if exchange.message.method in PREFERENCES:
            return await self._preferences.answer(exchange, session)
        return await self._dispatch.answer(exchange)

    async def _with_roots(self, exchange: Exchange, session: Session) -> AsyncGenerator[bytes]:
        """Ask the client for its roots, then answer with the workspace that they resolve to."""
        async with aclosing(self._roots.ask(exchange, session)) as request:
            async for message in request:
                yield message
        exchange.begun = time.monotonic()
        reply = self._translated(exchange, session, await self._answer(exchange, session))
        if isinstance(reply, Plain):
            yield reply.body
        else:
            async with aclosing(reply.messages) as messages:
                async for message in messages:
                    yield message

    def _translated(self, exchange: Exchange, session: Session, reply: Reply) -> Plain | Events:
        """Convert a reply for a session client: input requests become requests, the result its format."""
        is_list = exchange.message.method == names.TOOLS_LIST
        if is_list:
            self.session_manager.note_tools_list(session)
        if not isinstance(reply, Relayed):
            return reply
        pending = self.session_manager.pending_requests(session)
        trips = RoundTrips(exchange, pending, self._limit, waiting_calls=self._waiting_calls)
        messages = trips.messages(reply)
        return Events(messages if is_list else self._with_list_change(exchange, session, messages))

    async def _with_list_change(
        self, exchange: Exchange, session: Session, messages: AsyncGenerator[bytes]
    ) -> AsyncGenerator[bytes]:
        """Announce a change of the tools in front of a response, and give the client time to list them.

        Otherwise the client's next request to its model would leave without the new tools.
        """
        async with aclosing(messages):
            async for message in messages:
                is_last = begins_as_result(message) or is_response(message)
                if is_last and session.list_due:
                    session.list_due = False  # also without events: later calls need no task for it
                    if not exchange.accepts_events:
                        yield message
                        return
                    self.session_manager.expect_tools_list(session)
                    yield jsonrpc.notification(names.TOOLS_CHANGED)
                    await self.session_manager.wait_for_tools_list(session, LIST_HOLD_S)
                yield message

    def is_form(self, session: Session, message: Response) -> bool:
        """Whether a client's response answers a form or a page that was meant for its user."""
        return self.session_manager.pending_requests(session).is_form(message)

    def heard(self, session: Session, message: Notification | Response) -> None:
        """Process a client's response, `notifications/cancelled` or `notifications/roots/list_changed`.

        Each affects only this session. Other notifications are ignored.
        """
        if isinstance(message, Response):
            self.session_manager.pending_requests(session).resolve(message)
        elif message.method == names.CANCELLED:
            self._cancel(session, message)
        elif message.method == names.ROOTS_CHANGED:
            self._roots.forget(session)

    def _cancel(self, session: Session, notification: Notification) -> None:
        params = jsonrpc.members_of(notification.params)
        target = params.get("requestId")
        if target is not None and jsonrpc.is_valid_id(jsonrpc.bytes_of(target)):
            session.in_flight.cancel(jsonrpc.id_key(jsonrpc.bytes_of(target)))


def too_many(limit: int) -> Refusal:
    """The refusal of a session above the limit (47111)."""
    text = f"too many sessions are open, here or of this client: session_limit in config.toml is {limit:,}"
    return Refusal(Reason.TOO_MANY_SESSIONS, text, delivered="no", retry_after_ms=_FULL_RETRY_MS)


def _is_handshake(inbound: Inbound) -> bool:
    message = inbound.message
    if not isinstance(message, jsonrpc.Request):
        return False
    if message.method in names.HANDSHAKE_NAMES:
        return True
    return message.method == names.TOOLS_CALL and inbound.name in names.HANDSHAKE_NAMES


_CONFLICT: Final = b'{"error":"Conflict: this session has a stream already"}'
_LOST: Final = "the connection broke, and the answer is not here any more"


class _Listener(EventResponse):
    """The response that carries a session's server stream; works with callbacks instead of a task."""

    __slots__ = ("_session", "_session_manager")

    def __init__(self, http_request: HttpRequest, session_manager: SessionManager, session: Session) -> None:
        super().__init__(http_request)
        self._session_manager = session_manager
        self._session = session

    def close(self) -> None:
        """End the response; the session continues."""
        self.left()
        super().close()

    def left(self) -> None:
        """Detach from the session, after the response has ended or the client has disconnected."""
        self.stop_keep_alives()
        self._session_manager.notifier.close_stream(self._session, self)


async def serve_stream(
    http_request: HttpRequest,
    session_manager: SessionManager,
    session: Session,
    implied_workspace: str | None,
) -> None:
    """Serve one GET. Returns at the end of a request's stream, but at once for a server stream.

    Args:
        implied_workspace: id of the workspace that the request's URL and headers resolve to, if any.
    """
    last_event_id = http_request.metadata.fields.get(headers.LAST_EVENT_ID)
    last = None if last_event_id is None else replay.parse_event_id(last_event_id)
    if last is None or last.is_server_stream:
        _serve_server_stream(
            http_request,
            session_manager,
            session,
            implied_workspace,
            last,
            is_again=last_event_id is not None,
        )
        return
    out = EventResponse(http_request)
    stream = session_manager.streams.request_stream(session, last)
    if stream is not None:
        await _resume(http_request, out, stream, session, last)
    elif last.request is None:
        http_request.respond(204)
    else:
        out.open({headers.SESSION: session.id})
        following = EventId(last.stream, last.event + 1)
        await out.write(sse.encode(lost_answer(last.request, _LOST), identity=str(following)))
        out.close()


def _serve_server_stream(
    http_request: HttpRequest,
    session_manager: SessionManager,
    session: Session,
    implied_workspace: str | None,
    last: EventId | None,
    *,
    is_again: bool,
) -> None:
    out = _Listener(http_request, session_manager, session)
    after = session_manager.streams.server_stream(session).resume_point(last)
    server_stream = session_manager.notifier.open_stream(
        session, out, implied_workspace, takes_over=after is not None
    )
    if server_stream is None:
        http_request.respond(409, _CONFLICT)
        return
    if after is None and is_again:
        session_manager.notifier.notify_all_changed(session)
    try:
        out.open({headers.SESSION: session.id})
    except ConnectionError:
        out.left()
        raise
    http_request.on_disconnect = out.left
    http_request.release_input()
    server_stream.begin(out, after)


async def _resume(
    http_request: HttpRequest, out: EventResponse, stream: Stream, session: Session, last: EventId
) -> None:
    if stream.is_ended and last.event >= stream.sent:
        http_request.respond(204)
        return
    out.open({headers.SESSION: session.id})  # first: once attached, the stream may write events
    stream.attach(out)
    try:
        stream.resume(out, last.event)
        await stream.wait_ended()
        out.close()
    finally:
        stream.detach(out)


NOT_ALLOWED: Final = b'{"error": "Method Not Allowed"}'


class SessionRoutes:
    """Answers GET and DELETE requests of session clients.

    Args:
        open_requests: whether the manager is stopping; streams are refused with 503 then.
    """

    def __init__(self, legacy: SessionEndpoint, workspaces: Workspaces, open_requests: OpenRequests) -> None:
        self._legacy = legacy
        self._workspaces = workspaces
        self._open_requests = open_requests

    async def get(self, http_request: HttpRequest) -> None:
        """Open or resume a stream of a session; 405 for clients without a session."""
        metadata = http_request.metadata
        version = metadata.fields.get(headers.VERSION)
        if http_request.session is None or (version is not None and version not in LEGACY_REVISIONS):
            http_request.respond(405, NOT_ALLOWED, {"Allow": "POST"})
            return
        session = self._legacy.session(http_request.session)
        if isinstance(session, NoSession):
            http_request.respond(session.status, session.body(None))
            return
        if not metadata.accepts_events:
            http_request.respond(406, b'{"error":"Not Acceptable: accept text/event-stream"}')
            return
        located = await look_up_workspace(self._workspaces, claims_of(metadata, session))
        implied_workspace = located.workspace.id if isinstance(located, Located) else None
        # Checked after the await: nothing would end a stream opened after the end of its session.
        if self._legacy.session(http_request.session) is not session:
            http_request.respond(UNKNOWN.status, UNKNOWN.body(None))
        elif not self._open_requests.refuse_when_draining(http_request, None):
            await serve_stream(http_request, self._legacy.session_manager, session, implied_workspace)

    async def delete(self, http_request: HttpRequest) -> None:
        """End a session; 405 for stateless clients."""
        version = http_request.metadata.fields.get(headers.VERSION)
        if version is not None and version not in LEGACY_REVISIONS:
            http_request.respond(405, NOT_ALLOWED, {"Allow": "POST"})
            return
        session = self._legacy.session(http_request.session)
        if isinstance(session, NoSession):
            http_request.respond(session.status, session.body(None))
            return
        await self._legacy.session_manager.end(session)
        http_request.respond(200, jsonrpc.dumps({"ok": True, "deleted": True, "sessionId": session.id}))
