"""Sends requests of other members to this manager's own endpoint, where all admission and recording is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from lm_tools_bridge.machine.proved_connector import ProvedConnector
from lm_tools_bridge.protocol import headers, jsonrpc, names, sse
from lm_tools_bridge.protocol.names import LATEST_MODERN
from lm_tools_bridge.team.calls.exposure import (
    MAX_LIST_BYTES,
    ListedTool,
    Scope,
    exposed_answer,
    listed_tools,
    next_cursor,
    own_request,
    parameter,
)
from lm_tools_bridge.team.membership import OwnOffer

_MOST_PAGES: Final = 50
"""As many as the manager itself reads of a server; a list without an end must not hold a call."""


class Unusable(Exception):
    """The answer of the own workspace cannot be used; the text says why."""


class OwnManager:
    """A stateless client of this manager, for calls that members send."""

    def __init__(self, address: str, version: str, own_headers: Mapping[str, str]) -> None:
        """`address` is the URL of the MCP endpoint, `own_headers` are sent with each request."""
        self._own_headers = dict(own_headers)
        self._address, self._version = address, version
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """End all requests."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def call(
        self, request: jsonrpc.Request, offer: OwnOffer, caller: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a member's request. It is cancelled in the workspace when the block is left early.

        Raises:
            aiohttp.ClientError: this manager does not answer.
        """
        body = own_request(request, offer.scope, caller, self._version)
        async with self._opened().post(
            self._address,
            params={"cwd": offer.root, "show_all": "true"},
            data=body,
            headers=_headers(request, offer.scope) | self._own_headers,
        ) as response:
            yield response

    async def exposed(self, request: jsonrpc.Request, offer: OwnOffer, caller: str) -> bytes:
        """The answer to a list or to `server/discover`, reduced to what is exposed.

        Raises:
            Unusable, aiohttp.ClientError: there is none.
        """
        async with self.call(request, offer, caller) as response:
            answer = await _whole(response)
        reduced = exposed_answer(request.method, answer, offer.scope)
        if reduced is None:
            raise Unusable("the workspace gave no list")
        return reduced

    async def tools(self, offer: OwnOffer, caller: str) -> dict[str, ListedTool]:
        """All tools that an offer exposes, by the name that members use.

        Raises:
            Unusable, aiohttp.ClientError: they cannot be listed.
        """
        tools_by_name: dict[str, ListedTool] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
            body = jsonrpc.dumps(params)
            request = jsonrpc.Request(b"1", names.TOOLS_LIST, body, b"")
            answer = await self.exposed(request, offer, caller)
            tools = listed_tools(answer)
            if tools is None:
                raise Unusable(_error_of(answer))
            tools_by_name.update(tools)
            cursor = next_cursor(answer)
            if cursor is None:
                break
        return tools_by_name

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            limits = aiohttp.ClientTimeout(total=None, sock_connect=10)
            self._session = aiohttp.ClientSession(
                timeout=limits,
                connector=ProvedConnector(always=True, limit=0),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _headers(request: jsonrpc.Request, scope: Scope) -> dict[str, str]:
    sent = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        headers.VERSION: LATEST_MODERN,
        headers.METHOD: request.method,
    }
    if (member := names.NAMED_PARAM.get(request.method)) is not None:
        prefix = scope.prefix if request.method == names.TOOLS_CALL else ""
        sent[headers.NAME] = headers.encode_value(prefix + parameter(request, member))
    return sent


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > MAX_LIST_BYTES:
            raise Unusable(f"the list is larger than {MAX_LIST_BYTES} bytes")
    if response.content_type == "text/event-stream":
        events = [event.data for event in sse.Decoder(MAX_LIST_BYTES).feed(bytes(body)) if event.data]
        return events[-1] if events else b""
    return bytes(body)


def _error_of(answer: bytes) -> str:
    error = jsonrpc.members_of(jsonrpc.members_of(answer).get("error", b""))
    return jsonrpc.text_of(error.get("message", b"")) or "the workspace gave no list"
