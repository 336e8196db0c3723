"""Holds the request by which a workspace server knows that its manager lives, and hears what it reports.

A server reports the ends of calls that went on as tasks; the observer of calls is told of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Final

from lm_tools_bridge.protocol import jsonrpc, names, sse
from lm_tools_bridge.protocol.internal import call_reports as ended_task
from lm_tools_bridge.protocol.internal.call_reports import CallTiming, EndedTask
from lm_tools_bridge.protocol.names import Era
from lm_tools_bridge.token_bucket import TokenBucket
from manager.call_observer import GOES_ON, CallDetails, CallLabel, CallOrigin, EndedCall, ObserveCall
from manager.supervision.instance import Instance
from manager.upstream.failures import UpstreamFailure
from manager.waiting_calls import WaitingCalls

PER_S: Final = 50.0
"""Ends a second that a server may report for any length of time; it runs at most 256 tasks."""
BURST: Final = 512.0
"""Ends at once: all that it kept while no manager listened, and as many that end then."""
LONGEST_S: Final = 30 * 86_400.0
"""Longest duration that is believed: the time limits of tools end earlier."""


class TaskEnds:
    """Takes the reports of one server. More than it may report are dropped.

    Args:
        workspace: id of its workspace.
        observe_call: is told of each end.
        now: seconds of the machine's monotonic clock.
    """

    def __init__(
        self, workspace: str, observe_call: ObserveCall, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._workspace = workspace
        self._observe_call = observe_call
        self._now = now
        self._allowance = TokenBucket(PER_S, BURST, now())

    def report(self, message: bytes) -> None:
        """Tell the ends in a notification; others are ignored."""
        now = self._now()
        for task in ended_task.from_notification(message):
            if task.outcome not in GOES_ON and self._allowance.take(now):
                self._observe_call(ended_call(task, self._workspace, now))


def ended_call(task: EndedTask, workspace: str, now: float) -> EndedCall:
    """The call that a task was. Times that cannot be are moved to what is possible at `now`."""
    ended_at = min(task.ended, now)
    begun = min(max(task.begun, ended_at - LONGEST_S), ended_at)
    info = jsonrpc.dumps({"name": task.client, "version": task.client_version})
    label = CallLabel(
        info, Era.MODERN.value, task.revision, workspace, names.TOOLS_CALL, task.tool, task.source, ""
    )
    origin = CallOrigin(label, None, begun, task.sent, task.trace)
    details = None if task.code is None else CallDetails(code=task.code)
    took_s = ended_at - begun
    source_us, approval_us = (round(min(part, took_s) * 1e6) for part in (task.source_s, task.approval_s))
    timing = CallTiming(task.source, source_us, approval_us).value
    return EndedCall(origin, begun, ended_at, ended_at, task.outcome, task.received, details, timing)


# A server without a lifeline stops after a grace of many seconds, so several tries fit in.
RETRY_S: Final = 1.0
# Far above any report; a server that sends more loses its lifeline and not our memory.
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
