"""Finds what the server of a workspace, and the programs behind it, wrote to their log during a call.

It is joined by time: lines of other calls that ran at the same time are among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.recorder.call_log import Call

AFTER_MS: Final = 100
"""Milliseconds after the end of a call in which its lines may still arrive."""
MOST_LINES: Final = 100  # lines: what a person reads of one call; a chatty server writes thousands
_READ: Final = 8 * 1024 * 1024


class OutputLine(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the log.

    Attributes:
        source: id of the source that wrote it; None for the workspace server itself.
        is_of_call: whether it comes from the source of the call.
    """

    text: str
    source: str | None
    is_of_call: bool


def output_during(logs: Path, call: Call) -> list[OutputLine]:
    """The lines of the log in the time of a call; none if there is no such log any more."""
    if call.project is None:
        return []
    files = [logs / f"{call.project}.log.1", logs / f"{call.project}.log"]
    lines = (line for file in files for line in _tail(file))
    return list(islice(_within(lines, call), MOST_LINES))


def _within(lines: Iterable[str], call: Call) -> Iterator[OutputLine]:
    begin, end = call.at, call.at + call.took / 1000 + AFTER_MS
    is_within = False
    for line in lines:
        entry = _entry(line)
        at = _milliseconds(entry.get("timestamp"))
        if at is not None:
            is_within = begin <= at <= end
        if is_within:
            source = entry.get("source")
            source_id = source if isinstance(source, str) else None
            yield OutputLine(line, source_id, _is_of(call, source_id))


def _is_of(call: Call, source: str | None) -> bool:
    if source is None:
        return False
    name = source.partition(":")[2] or source
    return source == call.source or (call.tool or "").startswith(f"{name}__")


def _entry(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _milliseconds(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp() * 1000
    except ValueError:
        return None


def _tail(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _READ))
            return opened.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
