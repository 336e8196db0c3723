"""Clients of both eras that declare roots, and answer with them when they are asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientResponse

from lm_tools_bridge.protocol import names, sse
from support.clients.raw_clients import JSON, Answer, SessionClient, StatelessClient


@dataclass
class Heard:
    """A whole answer in a session: requests, notifications, the response and the headers."""

    asked: list[str]
    told: list[str]
    response: dict[str, Any]
    headers: Mapping[str, str]


class RootedSession(SessionClient):
    """A session client; `answer` is what it answers when it is asked for its roots, None: nothing."""

    capabilities: Mapping[str, Any] = {"roots": {"listChanged": True}}
    answer: Mapping[str, Any] | None = None

    def has(self, *uris: str) -> None:
        """Set its roots."""
        self.answer = {"result": {"roots": [{"uri": uri, "name": "n"} for uri in uris]}}

    async def listen(self, method: str, params: dict[str, Any] | None = None) -> Heard:
        """Send a request and answer what the manager asks meanwhile."""
        async with self.open(self.body(method, params, next(self._ids))) as response:
            if response.content_type == JSON:
                return Heard([], [], await response.json(), response.headers)
            return await self._listen(response)

    async def _listen(self, response: ClientResponse) -> Heard:
        heard = Heard([], [], {}, response.headers)
        decoder = sse.Decoder()
        async for chunk in response.content.iter_any():
            for message in [json.loads(event.data) for event in decoder.feed(chunk) if event.data]:
                if "id" in message and "method" in message:
                    heard.asked.append(message["method"])
                    await self.reply(message["id"])
                elif "method" in message:
                    heard.told.append(message["method"])
                else:
                    heard.response = message
        return heard

    async def reply(self, identity: Any) -> None:
        """Answer a question of the manager with the roots."""
        if self.answer is not None:
            body = {"jsonrpc": "2.0", "id": identity, **self.answer}
            assert (await self.post(json.dumps(body).encode())).status == 202


class RootedStateless(StatelessClient):
    """A stateless client, which is asked for its roots with the answer to a call."""

    capabilities: Mapping[str, Any] = {"roots": {}}

    def body(self, method: str, params: dict[str, Any] | None, identity: Any) -> bytes:
        given = dict(params or {})
        given["_meta"] = {names.META_CAPABILITIES: self.capabilities, **given.get("_meta", {})}
        return super().body(method, given, identity)

    async def answered(self, asked: Answer, roots: list[str], params: dict[str, Any], **more: Any) -> Answer:
        """Repeat a call with these roots."""
        [key] = asked.result["inputRequests"]
        answers = {key: {"roots": [{"uri": uri} for uri in roots]}}
        state = {"requestState": asked.result["requestState"], "inputResponses": answers}
        return await self.ask(names.TOOLS_CALL, {**params, **state, **more})
