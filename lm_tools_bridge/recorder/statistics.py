"""Computes the figures of each tool and client: calls, errors, percentiles, bytes, tokens. Pure."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Final

import msgspec

from lm_tools_bridge.recorder.call_log import Call

BYTES_PER_TOKEN: Final = 4
"""Bytes of JSON text that are counted as one token: an estimate, as each model counts differently."""


class ToolFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The calls of one tool by one client; durations in microseconds.

    Attributes:
        sent, received: bytes of all arguments and of all answers.
        tokens: estimated tokens of both.
    """

    tool: str | None
    method: str
    client: str | None
    calls: int
    errors: int
    p50: int
    p99: int
    sent: int
    received: int
    tokens: int


class _Group:
    __slots__ = ("errors", "received", "sent", "took")

    def __init__(self) -> None:
        self.took = array("q")
        self.errors = self.sent = self.received = 0


def tool_figures(calls: Iterable[tuple[Call, int, int, int | None, bool]]) -> list[ToolFigures]:
    """The figures of each tool and client, most calls first. `calls` is `CallLog.figures`."""
    groups: dict[tuple[str, str | None, str | None], _Group] = {}
    for label, took, sent, received, failed in calls:
        key = label.method, label.tool, label.client
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group()
        group.took.append(took)
        group.errors += failed
        group.sent += sent
        group.received += received or 0
    figures = [_figures(key, group) for key, group in groups.items()]
    return sorted(figures, key=lambda row: (-row.calls, row.tool or "", row.client or ""))


def _figures(key: tuple[str, str | None, str | None], group: _Group) -> ToolFigures:
    method, tool, client = key
    took = sorted(group.took)
    return ToolFigures(
        tool=tool,
        method=method,
        client=client,
        calls=len(took),
        errors=group.errors,
        p50=percentile(took, 0.5),
        p99=percentile(took, 0.99),
        sent=group.sent,
        received=group.received,
        tokens=(group.sent + group.received) // BYTES_PER_TOKEN,
    )


def percentile(ordered: list[int], share: float) -> int:
    """The value below which this share of ascending values lies (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0
