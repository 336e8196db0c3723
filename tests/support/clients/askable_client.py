"""A session client that declares every capability by which a server may request input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import BOTH
from support.clients.rooted_clients import RootedSession


class AskableClient(RootedSession):
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
        client.has()
        await client.listen(names.PROMPTS_LIST)
        return client
