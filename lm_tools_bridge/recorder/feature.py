"""Adds the record of calls to the daemon, and the verbs `lmtb calls`, `lmtb record` and `lmtb replay`."""

from __future__ import annotations

from typing import Final

from manager.features import DaemonPart, DaemonStart, Verb

_SECTION: Final = "The manager"
VERBS: Final = (
    Verb(
        "calls",
        "lm_tools_bridge.recorder.cli.calls",
        "Show what agents did: recorded calls, figures, export.",
        section=_SECTION,
        after="log",
        for_anyone=("calls", "calls export", "calls show", "calls stats"),
    ),
    Verb(
        "record",
        "lm_tools_bridge.recorder.cli.record",
        "Record arguments and results of calls, too, for a while.",
        section=_SECTION,
        after="calls",
        for_anyone=("record status",),
    ),
    Verb(
        "replay",
        "lm_tools_bridge.recorder.cli.replay",
        "Send recorded calls again, and compare the results.",
        section=_SECTION,
        after="record",
        for_anyone=("replay",),
    ),
)


def make_part(start: DaemonStart) -> DaemonPart:
    """The recorder, unless calls are not recorded, and the pages of recorded calls."""
    from lm_tools_bridge.recorder.part import RecorderPart

    return RecorderPart(start.settings, start.paths)
