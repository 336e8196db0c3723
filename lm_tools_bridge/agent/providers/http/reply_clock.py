"""Keeps the deadlines of one request to a model server: of its first byte and of the whole reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import aiohttp

from lm_tools_bridge.agent.providers.endpoint import Deadlines
from lm_tools_bridge.agent.providers.http.failures import Failures


class ReplyClock:
    """The deadlines of one attempt. Only the time that is spent waiting for the server can exceed them."""

    def __init__(self, deadlines: Deadlines, failures: Failures, *, streams: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._deadlines = deadlines
        self._failures = failures
        self._whole = now + deadlines.answer_s
        # a reply that is not streamed begins when it is complete
        self._first = now + deadlines.first_byte_s if streams else self._whole

    def began(self) -> None:
        """The first byte is there."""
        self._first = self._whole

    async def within(self, waiting: Awaitable[Any]) -> Any:
        """The result of what is waited for. Raises ProviderFailure at the deadline."""
        try:
            async with asyncio.timeout_at(min(self._first, self._whole)):
                return await waiting
        except aiohttp.ConnectionTimeoutError:
            raise
        except TimeoutError:
            if self._first < self._whole:
                raise self._failures.first_byte_late(self._deadlines.first_byte_s) from None
            raise self._failures.answer_late(self._deadlines.answer_s) from None
