"""A session client that declares every capability by which a server may request input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from aiohttp import ClientSession

from protocol import names, sse
from support.clients.raw_clients import BOTH, SessionClient


class AskableClient(SessionClient):
    """Declares elicitation, sampling and roots, and a capability that no specification defines.

    It has no roots, and says so when it connects: no later request is interrupted by the manager's question.
    """

    capabilities: Mapping[str, Any] = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {},
        "roots": {},
        "x": {"y": 1},
    }

    @classmethod
    async def connect(cls, http: ClientSession, url: str, *, accept: str | None = BOTH) -> Self:
        """Open a session and answer the question for the client's roots."""
        client = await super().connect(http, url, accept=accept)
        await client._tell_roots()
        return client

    async def _tell_roots(self) -> None:
        decoder = sse.Decoder()
        async with self.open(self.body(names.PROMPTS_LIST, None, "roots")) as response:
            async for chunk in response.content.iter_any():
                for event in decoder.feed(chunk):
                    message = json.loads(event.data) if event.data else {}
                    if message.get("method") == names.ROOTS_LIST:
                        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}}
                        assert (await self.post(json.dumps(answer).encode())).status == 202
