"""Measures the terminal agent: until its prompt, its memory, and what a long reply costs.

The agent is the real one at a pseudo terminal, with a running manager and a scripted model on loopback.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import psutil

from agent.screen.reply_box import ReplyBox
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.section import Section
from scripts.benchmarks.table import table
from support.processes.agent_desk import AgentDesk, agent_desk
from support.processes.manager_process import running_manager
from support.processes.screen_session import ScreenSession
from support.servers.model_formats.steps import Reply, say

PIECES: Final = tuple(f"word{number} " + ("\n\n" if number % 80 == 79 else "") for number in range(2000))
_MIB: Final = 1024 * 1024


class Start(NamedTuple):
    """Seconds until the prompt, on the clock and of processors, and MiB then."""

    wall: float
    cpu: float
    memory: float


def run(plan: Plan) -> Section:
    """Measure as many starts as there are rounds, and one session with a long reply."""
    model = [say("hello"), Reply(PIECES)]
    with running_manager(plan.folder / "user") as manager, agent_desk(manager, plan.folder, *model) as desk:
        starts = [_start(desk) for _ in range(plan.rounds + 1)][1:]
        reply_cpu, memory = _reply(desk)
    wall, cpu, at_prompt = (statistics.median(values) for values in zip(*starts, strict=True))
    rows = [
        ("start to prompt, ms", wall * 1000),
        ("start to prompt, processor time, ms", cpu * 1000),
        ("memory at the prompt, MiB", at_prompt),
        ("memory after a reply with tools, MiB", memory),
        ("reply of 2,000 pieces, processor time, ms", reply_cpu * 1000),
        ("of it to draw it, without Markdown, ms", _drawing() * 1000),
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


def _reply(desk: AgentDesk) -> tuple[float, float]:
    """Seconds of processors for the long reply, its rendering included, and MiB afterwards."""
    with _session(desk) as (terminal, process, _):
        terminal.press("hello\r")
        terminal.sees("│ hello")
        _prompt(terminal)
        before = _cpu(process)
        terminal.press("more\r")
        terminal.sees("word1999")
        _prompt(terminal)
        return _cpu(process) - before, process.memory_info().rss / _MIB


def _drawing() -> float:
    """Seconds of this process to draw the drafts of the same reply."""
    box = ReplyBox(lambda: (80, 24), lambda block, columns: [block[:columns].ljust(columns)])
    before = time.process_time()
    for piece in PIECES:
        box.feed(piece)
    return time.process_time() - before


def _prompt(terminal: ScreenSession) -> None:
    terminal.see(lambda shown: shown.rstrip().endswith("\n>"), "the prompt")


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
