"""Measures the terminal agent: until its prompt, its memory, and what a long reply costs.

The agent is the real one at a pseudo terminal, with a running manager and a scripted model on loopback, which
sends one piece (a token) at a time. On a terminal without colours (`TERM=dumb`) nothing is drawn or rendered.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import psutil

from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section
from support.processes.managers.manager_process import running_manager
from support.processes.terminals.agent_desk import AgentDesk, agent_desk
from support.processes.terminals.screen_session import ScreenSession
from support.servers.models.formats.steps import Reply, say

PIECES: Final = tuple(f"word{number} " + ("\n\n" if number % 80 == 79 else "") for number in range(2000))
GAP_S: Final = 0.0005
"""Seconds between two pieces: up to 2,000 tokens a second, far more than models on a desk have."""
_MIB: Final = 1024 * 1024


class Start(NamedTuple):
    """Seconds until the prompt, on the clock and of processors, and MiB then."""

    wall: float
    cpu: float
    memory: float


def run(plan: Plan) -> Section:
    """Measure as many starts and long replies as there are rounds."""
    with running_manager(plan.folder / "user") as manager, agent_desk(manager, plan.folder) as desk:
        desk.model.gap_s = GAP_S
        starts = [_start(desk) for _ in range(plan.rounds + 1)][1:]
        short, drawn, memory = _replies(desk, plan.rounds)
        desk.environ["TERM"] = "dumb"
        _, plain, _ = _replies(desk, plan.rounds)
    wall, cpu, at_prompt = (statistics.median(values) for values in zip(*starts, strict=True))
    rows = [
        ("start to prompt, ms", wall * 1000),
        ("start to prompt, processor time, ms", cpu * 1000),
        ("memory at the prompt, MiB", at_prompt),
        ("memory after a reply with tools, MiB", memory),
        ("short reply, processor time, ms", short * 1000),
        ("2,000 further pieces, processor time, ms", drawn * 1000),
        ("the same without drawing and Markdown, ms", plain * 1000),
    ]
    return Section("agent", table(("what", "median"), rows), dict(rows))


@contextmanager
def _session(desk: AgentDesk) -> Iterator[tuple[ScreenSession, psutil.Process, float]]:
    began = time.perf_counter()
    with desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        spent = time.perf_counter() - began
        yield terminal, psutil.Process(terminal.process.pid), spent


def _start(desk: AgentDesk) -> Start:
    with _session(desk) as (_, process, wall):
        return Start(wall, _cpu(process), process.memory_info().rss / _MIB)


def _replies(desk: AgentDesk, rounds: int) -> tuple[float, float, float]:
    """Median seconds of processors of a short reply and of what a long one takes more; MiB afterwards."""
    numbers = range(rounds)
    desk.model.turns = [say("hello")]
    for number in numbers:
        desk.model.turns += [say(f"short{number}"), Reply((*PIECES, f"end{number}"))]
    shorts, longs = [], []
    with _session(desk) as (terminal, process, _):
        _enter(terminal, "hello", "hello")
        for number in numbers:
            _enter(terminal, "/clear", "forgotten")
            started = _cpu(process)
            _enter(terminal, "less", f"short{number}")
            between = _cpu(process)
            _enter(terminal, "more", f"end{number}")
            shorts.append(between - started)
            longs.append(_cpu(process) - between - shorts[-1])
        return statistics.median(shorts), statistics.median(longs), process.memory_info().rss / _MIB


def _enter(terminal: ScreenSession, text: str, last: str) -> None:
    """Enter a line, and wait for the next prompt below what it gives."""
    terminal.press(f"{text}\r")
    ending = re.compile(rf"{last}[\s│╰─╯]*MODEL: [^\n]*\n>\Z")
    terminal.see(lambda shown: ending.search(shown.rstrip()) is not None, f"{last}, and a prompt")


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
