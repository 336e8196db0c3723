"""Builds requests of MCP 2026-07-28 as a manager sends them to a workspace server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from aiohttp import ClientResponse, ClientSession
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import headers, names, sse
from support.processes.timeouts import GUARD_S

REVISION = "2026-07-28"
SECRET = "s3cret-of-this-instance"
META = {names.META_VERSION: REVISION, names.META_CAPABILITIES: {}}


def body_of(
    method: str, params: dict[str, Any] | None = None, identity: int | str = 1, **meta: Any
) -> dict[str, Any]:
    """A request whose `_meta` is complete; keyword arguments are more members of `_meta`."""
    sent = {**(params or {}), "_meta": {**META, **meta}}
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": sent}


def headers_of(body: dict[str, Any], secret: str | None = SECRET) -> dict[str, str]:
    """The headers that go with a request."""
    sent = {headers.VERSION: REVISION, headers.METHOD: body["method"], "Content-Type": "application/json"}
    member = names.NAMED_PARAM.get(body["method"])
    name = body["params"].get(member) if member is not None else None
    if isinstance(name, str):
        sent[headers.NAME] = headers.encode_value(name)
    if secret is not None:
        sent[headers.SECRET] = secret
    return sent


class Caller:
    """Sends requests to one workspace server and checks what comes back against the official models.

    Args:
        told: what the manager tells it about the client, by header.
    """

    def __init__(
        self,
        session: ClientSession,
        url: str,
        secret: str = SECRET,
        told: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.session = session
        self.url = url
        self.secret = secret
        self.told = told

    def open(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Any:
        """The response to a request, as an asynchronous context manager."""
        body = body_of(method, params, **meta)
        sent = {**headers_of(body, self.secret), **self.told}
        return self.session.post(self.url, data=json.dumps(body), headers=sent)

    async def message(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """The answer's JSON-RPC message; its id is checked."""
        async with self.open(method, params, **meta) as response:
            answer: dict[str, Any] = await response.json()
        assert answer["id"] == 1
        return answer

    async def result(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """The result, which must be one of this revision."""
        answer = await self.message(method, params, **meta)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        validate_server_result(method, REVISION, result)
        assert result["resultType"] == "complete"
        assert result["_meta"][names.META_SERVER]["name"]
        return result

    async def call(self, tool: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """The result of a tool call."""
        return await self.result(names.TOOLS_CALL, {"name": tool, "arguments": arguments or {}})

    async def raw(self, method: str, params: str, *, name: str) -> bytes:
        """The answer's bytes to parameters given as the text of a JSON object."""
        sent = headers_of(body_of(method, {names.NAMED_PARAM[method]: name}), self.secret)
        text = f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{json.dumps(META)},{params[1:]}}}'
        async with self.session.post(self.url, data=text, headers=sent) as response:
            return await response.read()

    async def error(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The error of a request that must fail."""
        answer = await self.message(method, params)
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error


async def events(response: ClientResponse, count: int) -> list[dict[str, Any]]:
    """The next messages of a stream, comments left out."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(GUARD_S):
        while len(found) < count:
            frame = await response.content.readuntil(b"\n\n")
            found += [json.loads(event.data) for event in sse.Decoder().feed(frame)]
    return found
