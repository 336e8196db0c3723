"""The verb top: shows calls, servers and clients live, or one frame, or frames as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import click

from lm_tools_bridge.machine.process_facts import usage_of
from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, print_line
from lm_tools_bridge.terminal.show import show
from lm_tools_bridge.terminal.views import View
from lm_tools_bridge.top.frame import WAITING, Frame, frame, views
from lm_tools_bridge.top.sample import Sample, Sampler
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control, ControlRefusal, ManagerFault, NoManager

_BELL: Final = "\a"


class Bell:
    """Rings once for each thing, not for those that waited at the start.

    Args:
        write: writes to the terminal at once.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._known: set[str] | None = None

    def note(self, waiting: Iterable[Mapping[str, Any]]) -> None:
        """Take what a frame shows under `needsYou`."""
        keys = {str(row["key"]) for row in waiting}
        if self._known is not None and not keys <= self._known:
            self._write(_BELL)
        self._known = keys | (self._known or set())


_ANSWER_S: Final = 2.0
"""Longest wait for the manager: keys are not read meanwhile."""
_ONCE_S: Final = 0.5
"""Seconds between the two samples of a single frame, which its rates cover."""


@click.command(epilog=examples("lmtb top", "lmtb top --once"))
@click.option("--once", is_flag=True, help="Print one frame and end.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 60),
    default=1.0,
    show_default=True,
    help="Seconds between frames.",
)
@click.option("--bell/--no-bell", default=True, help="Ring when something begins to wait for you.")
@json_option
def top(once: bool, interval: float, bell: bool, as_json: bool) -> None:
    """Watch the calls that run and that ended last, the servers, and what they use.

    q or Ctrl-C quits. Without a terminal, one frame is printed. With --json, each frame is an object on one
    line. Calls that are answered at once, such as those of the calculator, are counted but not listed.
    """
    rings = bell and sys.stdout.isatty()
    frames = _Frames(
        Sampler(Control(user_paths().control_socket, _ANSWER_S), usage_of),
        Bell(_write_text) if rings else None,
    )
    if once or not (as_json or sys.stdout.isatty()):
        with explained():
            frames.next()
            time.sleep(min(_ONCE_S, interval))
            first_frame = frames.next()
        print_json(first_frame) if as_json else show(*views(first_frame))
    elif as_json:
        with suppress(KeyboardInterrupt):
            while True:
                _print_line(frames.next)
                time.sleep(interval)
    else:
        from lm_tools_bridge.top.live import watch  # rich, which only terminals need

        watch(frames.draw, interval)


class _Frames:
    """One frame after the other; each has its rates from the one before."""

    def __init__(self, sampler: Sampler, bell: Bell | None = None) -> None:
        self._sampler = sampler
        self._before: Sample | None = None
        self._bell = bell

    def next(self) -> Frame:
        """The frame of now. Raises as `Sampler.take`."""
        try:
            now = self._sampler.take()
        except (NoManager, ManagerFault, ControlRefusal):
            self._before = None
            raise
        new_frame = frame(now, self._before)
        self._before = now
        return new_frame

    def draw(self) -> Callable[[int], list[View]]:
        """What to show now: the frame, or that there is no manager."""
        try:
            new_frame = self.next()
        except (NoManager, ManagerFault, ControlRefusal):
            return lambda _: WAITING
        if self._bell is not None:
            self._bell.note(new_frame["needsYou"])
        return lambda height: views(new_frame, height)


def _write_text(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print_line(take: Callable[[], Frame]) -> None:
    try:
        with explained():
            print_line(take())
    except Failure as failure:
        problem = {"reason": failure.reason, "message": failure.message, "nextStep": failure.next_step}
        print_line({"manager": None, "servers": [], "calls": [], "problem": problem})
