"""Writes the requests to workspace servers, which speak only stateless MCP (2026-07-28), and prepares calls.

A stateless client's body is sent unchanged. A session client's body gets `_meta` spliced in; all its other
bytes are unchanged. A `PreparedCall` is written once, and sent now or as soon as that is possible; whoever
answers it keeps this one object: the direct relay, a task, or the fast path that sent it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

import msgspec

from lm_tools_bridge.protocol import headers, inbound, jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.names import LATEST_MODERN
from manager.answers import replies
from manager.answers.exchange import Exchange, Located, origin_of
from manager.answers.replies import Relayed, Reply
from manager.answers.workspace_lookup import look_up_cached
from manager.forwarding.answer import Answer
from manager.forwarding.forward import Forwarder, Outgoing
from manager.forwarding.forwarded_call import ForwardedCall
from manager.supervision.workspaces import Workspaces

_ELICITATION_SINCE: Final = "2025-06-18"
_LEVEL_UNSAID: Final = "info"
"""Log level for a session that never set one: MCP ≤ 2025-11-25 then leaves the choice to the server."""
_NO_CAPABILITIES: Final = msgspec.Raw(b"{}")
_MAX_MODE: Final = 32
"""Characters of a tool mode that are passed on, in a header of each request of its session. The longest mode
has 9."""
_ACCEPT: Final = (b"Accept", b"application/json, text/event-stream")
_JSON: Final = (b"Content-Type", b"application/json")
_REMEMBERED: Final = 256
"""Texts of `_meta` that are kept. Sessions of one client program share 4 (methods with input or not, events
accepted or not) for each log level. With a client's capabilities in it, one takes up to 16 KiB."""
_meta_texts: dict[tuple[object, ...], bytes] = {}
_UNMIRRORED: Final = (headers.UNMIRRORED.encode(), b"1")
_AS_IS: Final = (headers.PASS_THROUGH.encode(), b"1")
DIRECT: Final = frozenset({names.TOOLS_CALL, names.PROMPTS_GET, names.COMPLETE})
"""Methods that are forwarded unchanged once the workspace is known, at every URL."""


def upstream_request(exchange: Exchange, rewritten: Mapping[str, msgspec.Raw] | None = None) -> Outgoing:
    """Build the request for the workspace server.

    Args:
        exchange: the client's request.
        rewritten: parameters to send instead of the client's own (`callTool` unwraps another call).
    """
    method = exchange.message.method
    if exchange.is_modern:
        body = exchange.message.body
        passed = exchange.passed_headers
        if rewritten is not None:
            body = jsonrpc.request(exchange.message.id, method, rewritten)
            passed = (*_renamed(passed, _name(method, rewritten)), _UNMIRRORED)
    else:
        name = exchange.inbound.name if rewritten is None else _name(method, rewritten)
        body = _legacy_body(exchange, rewritten)
        passed = (
            *_own_headers(method, name),
            *exchange.passed_headers,
            *_of_session(exchange),
            _UNMIRRORED,
        )
    passed = (*passed, *_of_workspace(exchange))
    if exchange.note and method == names.TOOLS_CALL:
        passed = (*passed, (headers.NOTE.encode(), headers.encode_value(exchange.note).encode()))
    target = f"{names.MCP_PATH}{exchange.passed_query}".encode()
    begun = exchange.begun if method == names.TOOLS_CALL else None
    fields = (_ACCEPT, _JSON, *passed)
    timed, is_pure = method != names.LISTEN, exchange.is_pure
    exchange.is_forwarded = True
    origin = origin_of(exchange, rewritten)
    made = exchange.made_trace
    identity, is_ours = exchange.message.id, bool(exchange.server)
    return Outgoing(method, fields, body, identity, target, timed, is_pure, begun, origin, made, is_ours)


def manager_request(
    method: str, params: Mapping[str, object], identity: str, on_behalf: Sequence[tuple[bytes, bytes]] = ()
) -> Outgoing:
    """Build a request of the manager's own, with an id that is never null.

    It follows a handshake, or a URL names its workspace: the manager's own server may answer it.

    `on_behalf` are the headers of `address_headers`, where it is about what a client would be shown.
    """
    meta = inbound.modern_meta(
        msgspec.Raw(b"{}"), jsonrpc.raw({"name": "lm-tools-bridge-manager", "version": "1"})
    )
    request_id = jsonrpc.dumps(identity)
    body = jsonrpc.request(request_id, method, {**params, "_meta": meta})
    member = names.NAMED_PARAM.get(method)
    name = str(params[member]) if member is not None else None
    fields = (_ACCEPT, _JSON, *_own_headers(method, name), *on_behalf)
    return Outgoing(method, fields, body, request_id, is_pure=True)


def address_headers(exchange: Exchange) -> Sequence[tuple[bytes, bytes]]:
    """The headers for the tool mode and the pass-through that a client's URL asks for, and for its folder."""
    mode = [(name.encode(), value.encode("latin-1")) for name, value in mode_headers(exchange).items()]
    return [*mode, *_of_workspace(exchange)]


def _of_workspace(exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that say how the client addressed the workspace, and in which folder of it it works."""
    as_is = (_AS_IS,) if exchange.is_as_is else ()
    if exchange.server:
        as_is = (*as_is, (headers.SERVER.encode(), headers.encode_value(exchange.server).encode()))
    if not exchange.folder:
        return as_is
    return (*as_is, (headers.FOLDER.encode(), headers.encode_value(exchange.folder).encode()))


def cancelled_notification(state: msgspec.Raw) -> Outgoing:
    """Build the notification that the suspended call with this `requestState` will not be repeated.

    A suspended call has no connection that could be closed and no pending id; only its state identifies it.
    """
    body = jsonrpc.notification(names.CANCELLED, {"requestState": state})
    return Outgoing(names.CANCELLED, (_ACCEPT, _JSON, *_own_headers(names.CANCELLED, None)), body, b"")


def _legacy_body(exchange: Exchange, rewritten: Mapping[str, msgspec.Raw] | None) -> bytes:
    """The client's body, or one with other parameters, with the stateless `_meta`; its own keys stay."""
    message = exchange.message
    own = exchange.inbound.meta
    meta = jsonrpc.dumps({**own, **_meta(exchange)}) if own else _meta_text(exchange)
    if rewritten is not None:
        return jsonrpc.request(message.id, message.method, {**rewritten, "_meta": msgspec.Raw(meta)})
    if "_meta" in exchange.params:
        new = jsonrpc.dumps({**exchange.params, "_meta": msgspec.Raw(meta)})
    else:
        rest = message.params[1:].lstrip() if message.params else b"}"
        new = b'{"_meta":%b%b%b' % (meta, b"" if rest.startswith(b"}") else b",", rest)
    return jsonrpc.with_params(message.body, message.params, new)


def capabilities_of(exchange: Exchange) -> msgspec.Raw:
    """The capabilities for input requests during this request, as JSON text.

    A session client gets input requests on the request's event stream: none if it does not accept events.
    """
    session = exchange.session
    if exchange.is_modern:
        return exchange.inbound.meta[names.META_CAPABILITIES]
    if session is None or not exchange.accepts_events:
        return _NO_CAPABILITIES
    if session.revision >= _ELICITATION_SINCE:
        return msgspec.Raw(session.capabilities)
    declared = jsonrpc.members_of(session.capabilities)
    return jsonrpc.raw({name: value for name, value in declared.items() if name != "elicitation"})


def _meta(exchange: Exchange) -> dict[str, msgspec.Raw]:
    """The stateless `_meta` of a session request: revision, client, capabilities, log level."""
    session = exchange.session
    client = None
    if session is not None and session.client_name is not None:
        client = jsonrpc.raw({"name": session.client_name, "version": session.client_version or ""})
    meta = inbound.modern_meta(capabilities_of(exchange), client)
    if session is not None and exchange.accepts_events and exchange.message.method in names.INPUT_METHODS:
        meta[names.META_LOG_LEVEL] = jsonrpc.raw(session.log_level or _LEVEL_UNSAID)
    return meta


def _meta_text(exchange: Exchange) -> bytes:
    """The same as JSON text, cached: the requests of a session mostly share it."""
    session = exchange.session
    if session is None:
        return jsonrpc.dumps(_meta(exchange))
    said = (session.capabilities, session.client_name, session.client_version, session.log_level)
    key = (session.revision, *said, exchange.accepts_events, exchange.message.method in names.INPUT_METHODS)
    text = _meta_texts.get(key)
    if text is None:
        if len(_meta_texts) >= _REMEMBERED:
            _meta_texts.clear()
        text = _meta_texts[key] = jsonrpc.dumps(_meta(exchange))
    return text


def mode_headers(exchange: Exchange) -> dict[str, str]:
    """The tool mode that a request asks for, as headers; a header beats the query."""
    sent = {name.decode("latin-1").lower(): value for name, value in exchange.passed_headers}
    query = parse_qs(exchange.passed_query.removeprefix("?"), keep_blank_values=True, errors="replace")
    found = {}
    for name, member in headers.TOOL_MODES.items():
        if name.lower() in sent:
            found[name] = sent[name.lower()].decode("latin-1").strip()[:_MAX_MODE]
        elif member in query:
            found[name] = "".join(c for c in query[member][0] if " " <= c <= "~").strip()[:_MAX_MODE]
    return found


def _of_session(exchange: Exchange) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a session: its tool mode unless the request sets one, and the caller."""
    session = exchange.session
    if session is None:
        return ()
    if not session.mode:
        return (caller_header(session.id),)
    said = mode_headers(exchange)
    own = [(name, value) for name, value in session.mode if name not in said]
    return (*((name.encode(), value.encode("latin-1")) for name, value in own), caller_header(session.id))


def caller_header(session: str) -> tuple[bytes, bytes]:
    """The header that identifies the calls of one session without revealing the session id."""
    return headers.CALLER.encode(), hashlib.sha256(session.encode()).hexdigest()[:32].encode()


@lru_cache(maxsize=1024)
def _own_headers(method: str, name: str | None) -> tuple[tuple[bytes, bytes], ...]:
    own = [(headers.VERSION, LATEST_MODERN), (headers.METHOD, headers.encode_value(method))]
    if name is not None:
        own.append((headers.NAME, headers.encode_value(name)))
    return tuple((key.encode(), value.encode()) for key, value in own)


def _renamed(passed: tuple[tuple[bytes, bytes], ...], name: str | None) -> tuple[tuple[bytes, bytes], ...]:
    kept = tuple(pair for pair in passed if pair[0].lower() != b"mcp-name")
    return kept if name is None else (*kept, (headers.NAME.encode(), headers.encode_value(name).encode()))


def _name(method: str, params: Mapping[str, msgspec.Raw]) -> str | None:
    member = names.NAMED_PARAM.get(method)
    return jsonrpc.text_of(params[member]) if member is not None and member in params else None


class PreparedCall:
    """One request of a client whose workspace is decided, from then to its reply.

    Args:
        forwarder: sends it.
        exchange: the request as the client made it.
        located: its workspace.
        params: the parameters to send instead of the client's own, if a call was unwrapped.
        sent: the call in flight, if the fast path wrote and sent its request.

    Attributes:
        exchange: the request as the client made it.
        located: its workspace.
        in_flight: the call once it was sent without waiting; not set before.
    """

    __slots__ = ("_forwarder", "_outgoing", "_params", "exchange", "in_flight", "located")

    in_flight: ForwardedCall

    def __init__(
        self,
        forwarder: Forwarder,
        exchange: Exchange,
        located: Located,
        params: Mapping[str, msgspec.Raw] | None = None,
        sent: ForwardedCall | None = None,
    ) -> None:
        self._forwarder = forwarder
        self._params = params
        self._outgoing: Outgoing | None = None
        self.exchange = exchange
        self.located = located
        if sent is not None:
            self.in_flight = sent

    @property
    def is_sent(self) -> bool:
        """Whether it is in flight, sent without waiting."""
        return hasattr(self, "in_flight")

    @property
    def outgoing(self) -> Outgoing:
        """The request to the workspace server, written once."""
        if self._outgoing is None:
            self._outgoing = upstream_request(self.exchange, self._params)
        return self._outgoing

    def send_now(self) -> bool:
        """Send it if nothing has to be waited for; return whether it was sent."""
        call = self._forwarder.send_now(self.located.workspace, self.outgoing)
        if call is None:
            return False
        self.in_flight = call
        return True

    async def reply(self) -> Reply:
        """The reply, once its head has arrived. A call that is not in flight is sent as soon as possible."""
        if self.is_sent:
            answer = await self._forwarder.arrival(self.in_flight)
        else:
            answer = await self._forwarder.send(self.located.workspace, self.outgoing)
        return self.reply_to(answer)

    def reply_to(self, answer: Answer | Refusal) -> Reply:
        """The reply with this answer of the workspace server."""
        if isinstance(answer, Refusal):
            return replies.refuse(self.exchange, answer)
        return Relayed(answer, self._send_again, self._give_up)

    async def _send_again(self, more: Mapping[str, msgspec.Raw]) -> Answer | Refusal:
        """Send it with further parameters: the answers to input requests of the server."""
        exchange, params = self.exchange, self._params or self.exchange.params
        exchange.begun = time.monotonic()  # the time that the client needed for its input does not count
        repeated = upstream_request(exchange, {**params, **more})
        return await self._forwarder.send(self.located.workspace, repeated)

    async def _give_up(self, state: msgspec.Raw) -> None:
        """Cancel the suspended call. A stopped server has none, so it is not started for this."""
        workspace = self.located.workspace
        if workspace.supervisor.is_serving:
            answer = await self._forwarder.send(workspace, cancelled_notification(state))
            if not isinstance(answer, Refusal):
                await answer.aclose("ok")


def prepare_call(workspaces: Workspaces, forwarder: Forwarder, exchange: Exchange) -> PreparedCall | None:
    """Prepare a request that is forwarded unchanged to a workspace that is known from memory.

    Returns:
        None if `Dispatch.answer` has to be called instead: something must be read, asked or answered here.
    """
    inbound = exchange.inbound
    if exchange.message.method not in DIRECT or "requestState" in inbound.params:
        return None
    if exchange.wants_roots or exchange.has_sub_agents:
        return None
    if exchange.is_tool_call and inbound.name in names.MANAGER_TOOL_NAMES:
        return None
    located = look_up_cached(workspaces, exchange.claims)
    if located is None:
        return None
    exchange.decided(located)
    return PreparedCall(forwarder, exchange, located)
