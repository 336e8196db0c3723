"""Sends requests to the control socket of the manager on another host, over the line to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from manager.upstream.connection import Connection
from manager.upstream.failures import Blame, ResponseTooLarge, UpstreamFailure
from manager.upstream.pool import Pool
from manager.upstream.response import UpstreamResponse

ANSWER_S: Final = 40.0
MAX_ANSWER: Final = 16 * 1024 * 1024
HOST_FIELD: Final = ("localhost", 0)
"""What requests over a line say for `Host`: nobody's address (`AdmissionRules.for_managers`)."""

Dials = Callable[[str, Callable[[], Connection]], Coroutine[Any, Any, Connection]]


class FarControl:
    """The control socket of the manager on one host.

    Args:
        dial: connects a protocol to a target on the host.
    """

    def __init__(self, dial: Dials) -> None:
        self._pool = Pool(
            *HOST_FIELD,
            verify=lambda head, body: head.status == 200,
            verify_path=b"/health",
            connect_timeout=ANSWER_S,
            max_idle=2,
            dial=lambda make: dial("control", make),
        )

    async def ask(
        self, target: str, payload: Mapping[str, object], *, limit_s: float | None = None
    ) -> tuple[int, bytes]:
        """POST a JSON object; HTTP status and body of the answer.

        Args:
            limit_s: seconds after which the answer is no longer awaited; `ANSWER_S` if it is None.

        Raises:
            UpstreamFailure: the manager there did not answer.
        """
        fields = ((b"Content-Type", b"application/json"),)
        try:
            async with asyncio.timeout(ANSWER_S if limit_s is None else limit_s):
                body = json.dumps(payload).encode()
                response = await self._pool.request(b"POST", target.encode(), fields, body)
                return response.head.status, await response.read(MAX_ANSWER)
        except (ResponseTooLarge, TimeoutError) as error:
            raise UpstreamFailure(Blame.MAYBE_DELIVERED, "timeout") from error

    async def open(self, target: str) -> UpstreamResponse:
        """GET a path; the caller reads the answer as it comes.

        Raises:
            UpstreamFailure: the manager there did not answer.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._pool.request(b"GET", target.encode(), (), b"")
        except TimeoutError as error:
            raise UpstreamFailure(Blame.NOT_DELIVERED, "timeout") from error
