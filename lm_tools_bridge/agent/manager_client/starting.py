"""Starts the user's manager where none runs, as `lmtb up` does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

START_S: Final = 110.0
"""Seconds until a start counts as failed; `lmtb up` itself gives up sooner."""
_MAX_OUTPUT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Started:
    """How a start went: the manager's address, or why there is none."""

    address: str | None
    problem: str = ""


async def start_manager() -> Started:
    """Run `manager up` to its end. Cancelling the task ends that program, not the manager."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-m", "manager", "up", "--json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(START_S):
            assert process.stdout is not None  # noqa: S101  narrows the type
            output = await process.stdout.read(_MAX_OUTPUT)
            await process.wait()
    except TimeoutError:
        return Started(None, f"the manager did not start within {START_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _report(output)


async def tried(start: Callable[[], Awaitable[Started]]) -> Started:
    """How a start went, also one that could not even begin."""
    try:
        return await start()
    except OSError as error:
        return Started(None, f"the manager cannot be started: {error.strerror or error}")


def _report(output: bytes) -> Started:
    try:
        report: Any = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Started(None, "the manager cannot be started")
    if isinstance(report, dict) and report.get("ok") is True and isinstance(report.get("address"), str):
        return Started(report["address"])
    error = report.get("error") if isinstance(report, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    # the end of the manager's log may be part of it
    return Started(None, " ".join(str(text or "the manager cannot be started").split()))
