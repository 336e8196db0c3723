"""Holds the request by which a workspace server knows that its manager lives, and hears what it reports."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from lm_tools_bridge.protocol import names, sse
from manager.supervision.server.instance import Instance
from manager.supervision.server.task_ends import TaskEnds
from manager.upstream.failures import UpstreamFailure
from manager.waiting_calls import WaitingCalls

RETRY_S: Final = 1.0
MAX_EVENT: Final = 4 * 1024 * 1024


async def hold_lifeline(
    instance: Instance,
    is_current: Callable[[], bool],
    on_leaving: Callable[[], object],
    sleep: Callable[[float], Awaitable[None]],
    *,
    waiting_calls: WaitingCalls,
    task_ends: TaskEnds,
) -> None:
    """Keep one request open. When it breaks off, the server knows that this manager is gone.

    Args:
        is_current: whether the server is still the one that serves its workspace.
        on_leaving: called if the server ends the request in order, because it is stopping.
        sleep: waits before the next request if one broke off.
        waiting_calls: gets what the server reports of calls that wait for a person.
        task_ends: gets what it reports of tasks that have ended.
    """
    while is_current():
        with contextlib.suppress(UpstreamFailure, sse.EventTooLarge):
            response = await instance.pool.request(
                b"GET", names.LIFELINE_PATH.encode(), (instance.credentials(),), b""
            )
            events = sse.Decoder(MAX_EVENT)
            try:
                async for chunk in response.chunks():
                    for event in events.feed(chunk):
                        waiting_calls.report(instance.id, instance.workspace, instance.folders[0], event.data)
                        task_ends.report(event.data)
                on_leaving()
            finally:
                response.abandon()
                waiting_calls.forget(instance.id)
        await sleep(RETRY_S)
