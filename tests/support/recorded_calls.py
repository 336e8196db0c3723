"""Ended calls as the manager would hand them to the recorder, and a recorder on a clock of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.recorder.call_log import CallLog
from lm_tools_bridge.recorder.recorder import Limits, Recorder
from manager.call_observer import CallDetails, CallLabel, CallOrigin, EndedCall

AGENT = b'{"name":"agent","version":"1.2"}'
WALL = 1_800_000_000.0
"""A moment in seconds since 1970."""
DAY_S = 86_400.0


def ended(
    tool: str = "search",
    *,
    client: bytes = AGENT,
    workspace: str = "site-1a2b",
    outcome: str = "ok",
    begun: float = 100.0,
    took: float = 0.02,
    session: str | None = None,
    trace: str = "",
    sent: int = 30,
    received: int | None = 400,
    arguments: bytes | None = None,
    details: CallDetails | None = None,
    timing: CallTiming | None = None,
) -> EndedCall:
    """A call of a tool that was sent 1 ms after it had come."""
    label = CallLabel(client, "modern", "2026-07-28", workspace, "tools/call", tool, "", "query")
    origin = CallOrigin(label, session, begun, sent, trace, arguments=arguments)
    said = b"" if timing is None else timing.value
    return EndedCall(
        origin, begun + 0.001, begun + took - 0.001, begun + took, outcome, received, details, said
    )


class Clock:
    """Wall clock and monotonic clock, which a test moves."""

    def __init__(self) -> None:
        self.wall, self.monotonic = WALL, 1000.0

    def pass_time(self, seconds: float) -> None:
        """Let both go on."""
        self.wall += seconds
        self.monotonic += seconds


def recorder(folder: Path, clock: Clock | None = None, **limits: Any) -> Recorder:
    """A recorder without its thread: the test flushes."""
    clock = clock or Clock()
    kept = Limits(
        **{
            "size": 100 * 1024 * 1024,
            "age_s": 14 * DAY_S,
            "contents_age_s": DAY_S,
            "whole_per_s": 1e9,
            **limits,
        }
    )
    return Recorder(file(folder), kept, wall=lambda: clock.wall, now=lambda: clock.monotonic)


def file(folder: Path) -> Path:
    """Where the database lies."""
    return folder / "state" / "calls.sqlite3"


def log_of(folder: Path) -> CallLog:
    """The recorded calls; at least one must have been flushed."""
    log = CallLog.open(file(folder))
    assert log is not None
    return log
