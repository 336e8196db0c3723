"""Sends the HTTP requests of the SDK's transports to one remote server and enforces every rule about them.

`GuardedTransport` sends requests only to the configured origin and to allowed addresses, adds the credentials
of that origin, and limits what comes back. No exception leaves it for a POST, because the SDK would end
every call of the connection: a failure becomes a JSON-RPC error with a marker code, which `transport.py`
turns back.

Imported when the first connection is opened, because it needs httpx2 and anyio.
"""

from __future__ import annotations

import secrets
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import anyio
import httpcore2
import httpx2
import msgspec

from lm_tools_bridge.protocol import jsonrpc
from workspace_server import log
from workspace_server.sources.mcp.remote.addresses import AddressRefused, Origin, parse_origin
from workspace_server.sources.mcp.remote.authorization import Authorization, CredentialsMissing
from workspace_server.sources.mcp.remote.failures import (
    HttpFailure,
    SentRequest,
    answer_at,
    failure_of,
    refusal_in,
)
from workspace_server.sources.mcp.remote.network import (
    BROKEN,
    CONNECTING,
    BadEncoding,
    CheckedBackend,
    TooLarge,
    collected,
    decoded,
    tls,
    why,
)
from workspace_server.sources.mcp.remote.retry_policy import retry_after

MAX_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes, as of a stdio server's line."""
# An error is read for its message only; a proxy may send a whole page.
MAX_ERROR_BODY: Final = 64 * 1024
# A moved address needs one or two; each further one delays the call.
MAX_REDIRECTS: Final = 3
CONNECT_S: Final = 4.5
SIDE_S: Final = 5.0
"""Time limit of messages without a response, which delay the messages behind them, in seconds."""
IDLE_S: Final = 4.0
"""How long an idle connection is kept: less than the 5 s after which common servers close it."""
MARK: Final = -1_046_137_109
"""The code of JSON-RPC errors that are ours; their data is a key of `GuardedTransport.lost`."""
STREAM: Final = "text/event-stream"
_OURS: Final = frozenset(
    ("accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "expect",
     "host", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade")
)  # fmt: skip
"""Headers that an entry of the configuration cannot set by `headers`; nor those that begin `mcp-`."""


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw()
    method: str = ""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The way to one server.

    Attributes:
        lost: failures under the keys that stand in marked errors.
        failure: the last failure of all, for whoever opens a connection.
    """

    def __init__(
        self,
        origin: Origin,
        authorization: Authorization,
        headers: Mapping[str, str],
        backend: CheckedBackend,
        *,
        on_lost: Callable[[bytes, HttpFailure], None] | None = None,
        max_message: int = MAX_MESSAGE,
        side_s: float = SIDE_S,
    ) -> None:
        """Make the way; nothing is connected yet.

        Args:
            origin: the only origin requests may go to.
            authorization: for that origin.
            headers: sent along, except those that are ours to set.
            backend: who connects.
            on_lost: told of the request (JSON text of its id) and its failure, instead of a marked error: for
                the older transport, whose answers do not come as answers to a POST.
            max_message: bytes a message may have.
            side_s: see `SIDE_S`.
        """
        self._origin = origin
        self._authorization = authorization
        self._headers = {
            name: value for name, value in headers.items() if name.lower() not in _OURS and not
            name.lower().startswith("mcp-")
        }  # fmt: skip
        self._on_lost = on_lost
        self._max = max_message
        self._side_s = side_s
        self.lost: dict[str, HttpFailure] = {}
        self.failure: HttpFailure | None = None
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls() if origin.scheme == "https" else None,
            max_connections=256,
            max_keepalive_connections=8,
            keepalive_expiry=IDLE_S,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; a failure of it becomes a response."""
        body = await request.aread()
        sent_request = self._asked(request, body)
        identity = sent_request.id
        try:
            if identity and self._on_lost is None:
                return await self._exchange(request, sent_request)
            limit = None if request.method == "GET" else self._side_s
            with anyio.fail_after(limit):
                return await self._exchange(request, sent_request)
        except HttpFailure as failure:
            self.failure = failure
        except TimeoutError:
            self.failure = HttpFailure("failing", f"did not answer within {self._side_s:g} s", "unknown")
        except Exception as fault:  # noqa: BLE001  an exception would end every call of this connection
            log.fault("remote_exchange_failed", fault)
            self.failure = HttpFailure("failing", f"the exchange failed ({type(fault).__name__})", "unknown")
        return self._failed(request.method, identity, self.failure)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()

    def _asked(self, request: httpx2.Request, body: bytes) -> SentRequest:
        """What a request asks for; nothing if it is no POST."""
        envelope = _envelope(body) if request.method == "POST" else _Envelope()
        identity = jsonrpc.bytes_of(envelope.id) if envelope.method else b""
        # the older transport names its session in the URL
        names_session = self._on_lost is not None or "mcp-session-id" in request.headers
        return SentRequest(identity, envelope.method, names_session)

    async def _exchange(self, request: httpx2.Request, sent_request: SentRequest) -> httpx2.Response:
        try:
            if parse_origin(str(request.url)) != self._origin:
                raise HttpFailure("rejected", f"leads to {_origin(request.url)}, which is not followed")
            response = await self._authorized(request, sent_request)
        except CredentialsMissing as missing:
            failure = HttpFailure("unauthorized", missing.text)
            raise failure from None
        except AddressRefused as refused:
            raise HttpFailure("unreachable", f"has an address that is not allowed: {refused}") from None
        try:
            return await self._read(request, response, sent_request)
        except HttpFailure:
            await response.aclose()
            raise
        except TooLarge:
            await response.aclose()
            text = f"answered with more than {self._max // 2**20} MiB"
            raise HttpFailure("too_large", text, "unknown") from None
        except (BadEncoding, *BROKEN) as error:
            await response.aclose()
            raise HttpFailure("failing", f"broke off its answer{why(error)}", "unknown") from None

    async def _authorized(self, request: httpx2.Request, sent_request: SentRequest) -> httpcore2.Response:
        credentials = await self._authorization.header()
        response = await self._send(request, credentials)
        if response.status != 401:
            return response
        challenge = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
        }
        if "www-authenticate" not in challenge:
            await self._check_session(response, sent_request)
        await response.aclose()
        if not await self._authorization.renew(credentials, challenge):
            raise HttpFailure(
                "unauthorized", "does not accept our credentials (HTTP 401 Unauthorized)", status=401
            )
        return await self._send(request, await self._authorization.header())

    async def _check_session(self, response: httpcore2.Response, sent_request: SentRequest) -> None:
        """Raise if a 401 is not about credentials: some servers say so of a session that they do not know."""
        _, failure = await self._refusal(response, sent_request)
        if failure is not None and failure.kind == "session_lost":
            await response.aclose()
            raise failure

    async def _refusal(
        self, response: httpcore2.Response, sent_request: SentRequest
    ) -> tuple[bytes, HttpFailure | None]:
        """The body of an answer with a status of 400 or more, and the failure that it means, if it is one."""
        headers = httpx2.Headers(response.headers)
        pieces = decoded(response, headers.get("content-encoding", "identity"))
        body = await collected(pieces, MAX_ERROR_BODY, cut=True)
        wait_s = retry_after(headers.get("retry-after"), datetime.now(UTC))
        failure = failure_of(response.status, body, sent_request, wait_s)
        if failure is None and self._on_lost is not None:
            failure = answer_at(response.status, body)
        return body, failure

    async def _send(self, request: httpx2.Request, credentials: str | None) -> httpcore2.Response:
        headers = httpx2.Headers({**self._headers, **dict(request.headers)})
        headers["accept-encoding"] = "gzip"
        headers.pop("authorization", None)
        headers.pop("cookie", None)
        if credentials is not None:
            headers["authorization"] = credentials
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        timeouts = {"connect": CONNECT_S, "pool": CONNECT_S, "write": 30.0, "read": None}
        sent = httpcore2.Request(
            request.method,
            target,
            headers=headers.raw,
            content=request.content,
            extensions={"timeout": timeouts},
        )
        try:
            return await self._pool.handle_async_request(sent)
        except CONNECTING as error:
            if isinstance(error, AddressRefused):
                raise
            raise HttpFailure("unreachable", f"cannot be reached{why(error)}") from None
        except (*BROKEN, httpcore2.UnsupportedProtocol) as error:
            raise HttpFailure("failing", f"broke off the connection{why(error)}", "unknown") from None

    async def _read(
        self, request: httpx2.Request, response: httpcore2.Response, sent_request: SentRequest
    ) -> httpx2.Response:
        headers = httpx2.Headers(response.headers)
        if 300 <= response.status < 400:
            self._check_redirect(request, response.status, headers.get("location"))
        pieces = decoded(response, headers.pop("content-encoding", "identity"))
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        headers.pop("content-length", None)
        if response.status < 300 and kind == STREAM:
            headers["content-type"] = STREAM  # always UTF-8, whatever charset it names
            first = FirstMessage(lambda event, data: self._marked(event, data, sent_request))
            stream = _Stream(pieces, response, first if sent_request.follows_handshake else None)
            return httpx2.Response(response.status, headers=headers, stream=stream)
        older = self._on_lost is not None
        if response.status >= 400:
            body, failure = await self._refusal(response, sent_request)
            await response.aclose()
            if failure is not None:
                raise failure
            headers["content-type"] = "application/json"
        else:
            body = await collected(pieces, self._max)
            await response.aclose()
            if response.status < 300 and sent_request.id and not older and kind != "application/json":
                description = (
                    f"with {kind} instead of JSON" if body else f"HTTP {response.status} and nothing else"
                )
                raise HttpFailure("rejected", f"answered {description}", "unknown", status=response.status)
            if (
                len(body) <= MAX_ERROR_BODY
                and b'"error"' in body
                and (refusal := refusal_in(body, sent_request))
            ):
                raise refusal
        return httpx2.Response(response.status, headers=headers, content=body)

    def _check_redirect(self, request: httpx2.Request, status: int, location: str | None) -> None:
        """Allow redirects that the SDK follows: same origin, same method, three at most."""
        if location is None:
            raise HttpFailure("rejected", f"answered HTTP {status} without a location", status=status)
        target = request.url.join(location)
        try:
            stays = parse_origin(str(target)) == self._origin
        except AddressRefused:
            stays = False
        if not stays:
            text = f"redirects to {_origin(target)}, which is not followed; if that is right, configure it"
            raise HttpFailure("rejected", text, status=status)
        if request.method != "GET" and status not in (307, 308):
            raise HttpFailure("rejected", f"answered HTTP {status}, which is not followed", status=status)
        hops = request.extensions.get("hops", 0) + 1
        if hops > MAX_REDIRECTS:
            raise HttpFailure("rejected", f"redirects more than {MAX_REDIRECTS} times", status=status)
        request.extensions["hops"] = hops  # the SDK's next request inherits the extensions

    def _failed(self, method: str, identity: bytes, failure: HttpFailure) -> httpx2.Response:
        """The response that the SDK's transports handle correctly: a marked error, or nothing."""
        if not identity:
            return httpx2.Response(202 if method == "POST" else 405)
        if self._on_lost is not None:
            self._on_lost(identity, failure)
            return httpx2.Response(202)
        return httpx2.Response(
            400,
            headers={"content-type": "application/json"},
            content=self._marked_error(identity, failure),
        )

    def _marked_error(self, identity: bytes, failure: HttpFailure) -> bytes:
        key = secrets.token_hex(8)
        self.lost[key] = failure
        return jsonrpc.error(identity, MARK, failure.text, key)

    def _marked(self, event: bytes, data: bytes, sent_request: SentRequest) -> bytes:
        """The first event of a response stream, or a marked error if it refuses the request as a whole."""
        refusal = refusal_in(data, sent_request) if b'"error"' in data else None
        return event if refusal is None else b"data: " + self._marked_error(sent_request.id, refusal)


class EventLines:
    """Turns the legal forms of an event stream into one: no byte order mark, and every line ends in `\\n`.

    The SDK's reader takes a byte order mark for a part of the first field's name, and waits after a `\\r`
    for more bytes, which may never come.
    """

    def __init__(self) -> None:
        self._start: bytes | None = b""
        self._after_cr = False

    def feed(self, piece: bytes) -> bytes:
        """The next bytes, of which the first few are kept until it is known whether they are a mark."""
        if self._start is not None:
            piece = self._start + piece
            self._start = piece if len(piece) < len(BOM_UTF8) and BOM_UTF8.startswith(piece) else None
            if self._start is not None:
                return b""
            piece = piece.removeprefix(BOM_UTF8)
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece


class FirstMessage:
    """Holds the first event with data until it is whole, and lets it be replaced.

    Whatever comes before it passes at once, and so does an event that is larger than a refusal.
    """

    def __init__(self, replace: Callable[[bytes, bytes], bytes]) -> None:
        """Make it for one stream; `replace` gets the event and its data, and returns the event to pass on."""
        self._replace = replace
        self._held: bytes | None = b""

    def feed(self, piece: bytes) -> bytes:
        """What may pass on, of lines that end in line feeds."""
        if self._held is None:
            return piece
        self._held += piece
        passed = b""
        while b"\n\n" in self._held:
            event, _, self._held = self._held.partition(b"\n\n")
            fields = (line.partition(b":") for line in event.split(b"\n"))
            if data := b"\n".join(value.strip() for name, _, value in fields if name == b"data").strip():
                return passed + self._replace(event, data) + b"\n\n" + self.rest()
            passed += event + b"\n\n"
        return passed + self.rest() if len(self._held) > MAX_ERROR_BODY else passed

    def rest(self) -> bytes:
        """What is held; nothing is held from now on."""
        held, self._held = self._held or b"", None
        return held


class _Stream(httpx2.AsyncByteStream):
    """A stream of events, decoded; the reader limits the size of an event."""

    def __init__(
        self, pieces: AsyncIterator[bytes], response: httpcore2.Response, first: FirstMessage | None
    ) -> None:
        self._pieces = pieces
        self._response = response
        self._first = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines = EventLines()
        try:
            async for piece in self._pieces:
                read = lines.feed(piece)
                yield read if self._first is None else self._first.feed(read)
            if self._first is not None:
                yield self._first.rest()
        except (BadEncoding, *BROKEN) as error:
            raise httpx2.ReadError(f"the stream broke off{why(error)}") from None

    async def aclose(self) -> None:
        await self._response.aclose()


def _envelope(body: bytes) -> _Envelope:
    try:
        return msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, RecursionError):
        return _Envelope()


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace').rpartition('@')[2]}"
