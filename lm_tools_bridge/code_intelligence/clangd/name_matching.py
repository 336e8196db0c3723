"""Finds the names that a caller's regular expression matches, in bounded time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from workspace_server.sources.builtin.search import process

TIME_S: Final = 5.0
"""Most patterns need milliseconds; one that backtracks without end would never end by itself."""
MAX_NAMES: Final = 100_000
"""Names of one match: far more than clangd lists for a query, and still a small message."""
MAX_PATTERN: Final = 1000
"""Characters: no pattern that a person or a model writes is longer."""
_PROGRAM: Final = Path(__file__).with_name("name_matcher_program.py")


@dataclass(frozen=True, slots=True)
class BadPattern:
    """Why a pattern cannot be used; for a model."""

    reason: str


async def matching(pattern: str, names: Sequence[str]) -> Sequence[int] | BadPattern:
    """The indices of the names in which the pattern is found, in Python's syntax.

    A pattern can keep `re` busy for ever, hence a process, which is killed after five seconds.

    Raises:
        EngineUnavailable: the process cannot be started.
    """
    if len(pattern) > MAX_PATTERN:
        return BadPattern(f"the pattern is longer than {MAX_PATTERN} characters")
    request = msgspec.json.encode({"pattern": pattern, "names": names[:MAX_NAMES]})
    output = bytearray()

    def collect(chunk: bytes) -> bool:
        output.extend(chunk)
        return True

    try:
        async with asyncio.timeout(TIME_S):
            ended = await process.run(
                [sys.executable, "-I", str(_PROGRAM)], _PROGRAM.parent, collect, stdin=request
            )
    except TimeoutError:
        return BadPattern(f"the pattern takes longer than {TIME_S:g} s")
    if ended.code != 0:
        return BadPattern("the pattern cannot be used")
    answer: dict[str, Any] = msgspec.json.decode(bytes(output))
    if "error" in answer:
        place = "" if answer["position"] is None else f" at position {answer['position']}"
        return BadPattern(f"{answer['error']}{place}")
    indices: Sequence[int] = answer["matching"]
    return indices
