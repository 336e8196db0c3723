"""Holds the request by which a workspace server knows that its manager lives."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from manager.supervision.instance import Instance
from manager.upstream.failures import UpstreamFailure
from protocol import names

RETRY_S: Final = 1.0


async def hold_lifeline(
    instance: Instance,
    is_current: Callable[[], bool],
    on_leaving: Callable[[], object],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Keep one request open. When it breaks off, the server knows that this manager is gone.

    Args:
        is_current: whether the server is still the one that serves its workspace.
        on_leaving: called if the server ends the request in order, because it is stopping.
        sleep: waits before the next request if one broke off.
    """
    while is_current():
        with contextlib.suppress(UpstreamFailure):
            response = await instance.pool.request(
                b"GET", names.LIFELINE_PATH.encode(), (instance.credentials(),), b""
            )
            try:
                async for _ in response.chunks():
                    pass
                on_leaving()
            finally:
                response.abandon()
        await sleep(RETRY_S)
