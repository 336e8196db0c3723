"""Logs what the event loop does while it does not run its callbacks, from a thread of its own.

Once a second the thread asks the loop for a sign of life. If there is none for a second, the stack of the
loop's thread is logged: file, line and function of each frame, and no values.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from typing import Final

from manager.log import logger

# As often as `BLOCKED_S`, so that a block is noticed within two seconds; the thread costs nothing by that.
EVERY_S: Final = 1.0
BLOCKED_S: Final = 1.0
"""Seconds without a sign of life after which the loop counts as blocked."""
TELL_EVERY_S: Final = 60.0
"""At most one stack in so many seconds."""
# Frames from the innermost outwards: enough to see who called what blocks, and one line of the log.
MOST_FRAMES: Final = 30


@contextmanager
def watched(
    loop: asyncio.AbstractEventLoop,
    *,
    every_s: float = EVERY_S,
    blocked_s: float = BLOCKED_S,
    tell_every_s: float = TELL_EVERY_S,
) -> Iterator[None]:
    """Watch the loop, which runs in this thread, inside the block."""
    watch = _Watch(loop, threading.get_ident(), every_s, blocked_s, tell_every_s)
    threading.Thread(target=watch.run, name="blocked loop", daemon=True).start()
    try:
        yield
    finally:
        watch.stop()


def stood_still(waited_s: float, expected_s: float, cpu_s: float) -> bool:
    """Whether the whole process was stopped, or got no processor, during a wait of this thread.

    A wait takes much longer than it should either then, or because code that does not release the interpreter
    lock blocks all threads; such code uses the processor, even of a busy machine more than a tenth.

    Args:
        cpu_s: processor time of the process during the wait.
    """
    late_s = waited_s - expected_s
    return late_s > expected_s / 2 and cpu_s < late_s / 10


class Spacing:
    """Lets one line pass in `every_s` seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._next_at = -inf
        self._left_out = 0

    def passes(self, now: float) -> int | None:
        """How many lines were left out since the last one that passed; None if this one is left out, too."""
        if now < self._next_at:
            self._left_out += 1
            return None
        self._next_at = now + self._every_s
        left_out, self._left_out = self._left_out, 0
        return left_out


class _Watch:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: int,
        every_s: float,
        blocked_s: float,
        tell_every_s: float,
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._every_s = every_s
        self._blocked_s = blocked_s
        self._tell_every_s = tell_every_s
        self._spacing = Spacing(tell_every_s)
        self._answered = threading.Event()
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()
        self._answered.set()

    def run(self) -> None:
        """Ask the loop again and again."""
        with suppress(RuntimeError):  # the loop is closed
            while not self._stopped.wait(self._every_s):
                self._ask()

    def _ask(self) -> None:
        self._answered.clear()
        asked_at, cpu = time.monotonic(), time.process_time()
        self._loop.call_soon_threadsafe(self._answered.set)
        if self._stopped.is_set() or self._answered.wait(self._blocked_s):
            return
        if stood_still(time.monotonic() - asked_at, self._blocked_s, time.process_time() - cpu):
            return
        is_told = self._tell(asked_at)
        while not self._answered.wait(self._tell_every_s):
            is_told = self._tell(asked_at) or is_told
        if is_told and not self._stopped.is_set():
            logger().warning("event_loop.recovered", seconds=_since(asked_at))

    def _tell(self, asked_at: float) -> bool:
        """Log the stack, unless one was logged a short time ago; return whether it was done."""
        left_out = self._spacing.passes(time.monotonic())
        if left_out is None:
            return False
        frames = _frames(self._thread)
        logger().warning(
            "event_loop.blocked",
            seconds=_since(asked_at),
            where=frames[-1] if frames else "",
            left_out=left_out,
            stack="\n".join(frames),
        )
        return True


def _frames(thread: int) -> list[str]:
    """The innermost frames of a thread, the innermost one last."""
    frame = sys._current_frames().get(thread)
    frames: list[str] = []
    while frame is not None and len(frames) < MOST_FRAMES:
        frames.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}")
        frame = frame.f_back
    return frames[::-1]


def _since(then: float) -> float:
    return round(time.monotonic() - then, 1)
