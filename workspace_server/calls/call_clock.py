"""Measures where the time of one request goes, for the manager's record of calls."""

from __future__ import annotations

import msgspec

from lm_tools_bridge.protocol.internal.call_timing import CallTiming


class CallClock(msgspec.Struct, gc=False):
    """The times of one request in monotonic seconds; nested calls do not count apart.

    Attributes:
        source: id of the source that the request is for; empty if it is for none.
        source_s, approval_s: how long the source took, and before it a person to approve the call.
        is_task: whether the answer is a task, as which the call goes on.
    """

    source: str = ""
    source_s: float = 0.0
    approval_s: float = 0.0
    is_task: bool = False

    def add(self, source: str, seconds: float) -> None:
        """Add the time that a source took."""
        self.source = source
        self.source_s += seconds

    def waited(self, source: str, seconds: float) -> None:
        """Add the time that a person took to decide about a call of this source."""
        self.source = source
        self.approval_s += seconds

    @property
    def timing(self) -> CallTiming | None:
        """What the manager is told; None if the request was not for a source."""
        if not self.source:
            return None
        source_us, approval_us = round(self.source_s * 1e6), round(self.approval_s * 1e6)
        return CallTiming(self.source, source_us, approval_us, self.is_task)
