"""Decides whether a server that did not answer in time is slow, on a busy machine, or hangs. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

_WAITS: Final = 0.1
"""Share of the time that a slow server waits for a processor at least."""
_RUNS: Final = 0.005
"""Share of the time that a server runs at least, to be slow for reasons of its own."""
_NEVER_RESTS: Final = 0.8
"""Share of the time from which a server is in an endless loop."""


class ProcessorTime(NamedTuple):
    """What the main thread of a process had of the processors since its start.

    Attributes:
        ran_s: seconds that it ran.
        waited_s: seconds that it could have run, but others did.
        is_blocked: whether it waits for a disk or for swapped memory at this moment.
    """

    ran_s: float
    waited_s: float = 0.0
    is_blocked: bool = False


def is_slow(before: ProcessorTime | None, after: ProcessorTime | None, seconds: float) -> bool:
    """Whether a process that did not answer works on it: it runs, or would run if it were let.

    Args:
        before: what it had when it was asked; None if unknown.
        after: what it had when it had still not answered.
        seconds: the time between.

    Returns:
        False for one that sleeps, is stopped, or does nothing but compute; also if nothing is known.
    """
    if before is None or after is None or seconds <= 0:
        return False
    ran, waited = (after.ran_s - before.ran_s) / seconds, (after.waited_s - before.waited_s) / seconds
    if ran >= _NEVER_RESTS:
        return False
    return after.is_blocked or waited >= _WAITS or ran >= _RUNS
