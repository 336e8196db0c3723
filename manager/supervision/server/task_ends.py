"""Tells the observer of calls that went on as tasks, when their servers report the ends on the lifelines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.internal import ended_task
from lm_tools_bridge.protocol.internal.call_timing import CallTiming
from lm_tools_bridge.protocol.internal.ended_task import EndedTask
from lm_tools_bridge.protocol.versions import Era
from lm_tools_bridge.token_bucket import TokenBucket
from manager.call_observer import GOES_ON, CallDetails, CallLabel, CallOrigin, EndedCall, ObserveCall

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
