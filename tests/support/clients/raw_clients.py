"""HTTP clients that send exactly what a test gives them and keep exactly what came back.

For the behaviour of real clients, use the official `mcp.Client`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names, sse
from support.clients import stateless_requests as modern

JSON = "application/json"
EVENTS = "text/event-stream"
BOTH = f"{JSON}, {EVENTS}"


@dataclass(frozen=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_stream(self) -> bool:
        """Whether it came as an event stream."""
        return self.headers["Content-Type"].startswith(EVENTS)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages in it; plain JSON holds one."""
        if not self.is_stream:
            return [json.loads(self.body)]
        return [json.loads(one.data) for one in self.events]

    @property
    def events(self) -> list[sse.Event]:
        """The events of a stream that have data: those that only prime a client have none."""
        return [one for one in sse.Decoder().feed(self.body) if one.data]

    @property
    def message(self) -> dict[str, Any]:
        """The response, which is the last message."""
        return self.messages[-1]

    @property
    def error(self) -> dict[str, Any]:
        """The JSON-RPC error."""
        assert "error" in self.message, self.message
        error: dict[str, Any] = self.message["error"]
        return error

    @property
    def result(self) -> dict[str, Any]:
        """The result of the response."""
        assert "result" in self.message, self.message
        result: dict[str, Any] = self.message["result"]
        return result

    @property
    def payload(self) -> dict[str, Any]:
        """The structured content of a tool result that is no error."""
        assert not self.result.get("isError"), self.result
        payload: dict[str, Any] = self.result["structuredContent"]
        return payload

    @property
    def refusal(self) -> dict[str, Any]:
        """The error inside a tool result; its text must say the same and end in the next step."""
        assert self.status == 200
        assert self.result["isError"] is True
        assert self.result["structuredContent"]["ok"] is False
        refused: dict[str, Any] = self.result["structuredContent"]["error"]
        text = f"{refused['message']}. Next step: {refused['nextStep']}."
        assert self.result["content"] == [{"type": "text", "text": text}]
        return refused


class Client:
    """What both eras share. `accept` is the Accept header, None for none."""

    def __init__(self, http: ClientSession, url: str, *, accept: str | None = BOTH) -> None:
        self.http = http
        self.url = url
        self.accept = accept
        self.extra: dict[str, str] = {}
        self._ids = itertools.count(1)

    def body(self, method: str, params: dict[str, Any] | None, identity: Any) -> bytes:
        """A request body."""
        return json.dumps(
            {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}}
        ).encode()

    def header(self, body: bytes) -> dict[str, str]:
        """The headers that go with a body."""
        accept = {} if self.accept is None else {"Accept": self.accept}
        return {"Content-Type": JSON, **accept, **self.extra}

    def open(self, body: bytes, url: str | None = None) -> Any:
        """The HTTP response to a body, as an asynchronous context manager."""
        skip = ["Accept"] if self.accept is None else []
        return self.http.post(url or self.url, data=body, headers=self.header(body), skip_auto_headers=skip)

    async def post(self, body: bytes, url: str | None = None) -> Answer:
        """Send these bytes and read the whole answer."""
        async with self.open(body, url) as response:
            return Answer(response.status, response.headers, await response.read())

    async def ask(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        url: str | None = None,
        identity: Any = None,
    ) -> Answer:
        """Send a request; its id must come back, unless it was refused before its body was read."""
        identity = identity or next(self._ids)
        answer = await self.post(self.body(method, params, identity), url)
        is_refused_unread = answer.status >= 400 and "id" not in answer.message
        if answer.body and not is_refused_unread:
            assert answer.message["id"] == identity
        return answer

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Answer:
        """Call a tool; `meta` among the options becomes `_meta`."""
        params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
        if (meta := options.pop("meta", None)) is not None:
            params["_meta"] = meta
        return await self.ask(names.TOOLS_CALL, params, **options)

    async def handshake(self, cwd: object, **options: Any) -> Answer:
        """The handshake with a folder."""
        sent = str(cwd) if isinstance(cwd, Path) else cwd
        return await self.call(names.HANDSHAKE, {"cwd": sent}, **options)


class SessionClient(Client):
    """A client of the session era: `session` is its `Mcp-Session-Id`; `name`, `capabilities`: what it says."""

    session: str | None = None
    revision = "2025-11-25"
    name = "test"
    capabilities: Mapping[str, Any] = {}

    @classmethod
    async def connect(cls, http: ClientSession, url: str, *, accept: str | None = BOTH) -> Self:
        """Initialize a session."""
        client = cls(http, url, accept=accept)
        me = {"name": cls.name, "version": "1"}
        params = {"protocolVersion": cls.revision, "capabilities": cls.capabilities, "clientInfo": me}
        answer = await client.ask(names.INITIALIZE, params)
        client.session = answer.headers[headers.SESSION]
        assert (await client.notify(names.INITIALIZED)).status == 202
        return client

    def header(self, body: bytes) -> dict[str, str]:
        own = {} if self.session is None else {headers.SESSION: self.session, headers.VERSION: self.revision}
        return {**super().header(body), **own}

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        return await self.post(json.dumps(message).encode())

    def stream(self, after: str | None = None) -> Any:
        """The GET stream, as an asynchronous context manager; the standing one, or that of an event's id."""
        sent = {"Accept": EVENTS, headers.SESSION: self.session or ""}
        return self.http.get(self.url, headers=sent | ({headers.LAST_EVENT_ID: after} if after else {}))


class StatelessClient(Client):
    """A stateless client."""

    def body(self, method: str, params: dict[str, Any] | None, identity: Any) -> bytes:
        given = dict(params or {})
        meta = given.pop("_meta", {})
        return json.dumps(modern.body_of(method, given, identity, **meta)).encode()

    def header(self, body: bytes) -> dict[str, str]:
        return {**super().header(body), **modern.headers_of(json.loads(body), None)}
