"""Takes samples for open pages: one a second at most for all of them together, none while no page is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from lm_tools_bridge.page.health import read_health
from lm_tools_bridge.page.overview_fragments import parts
from lm_tools_bridge.page.overview_view import PageView, page_view
from lm_tools_bridge.protocol.errors import Refusal
from manager.admin.control.services import Services
from manager.admin.measures import Moment
from manager.log import logger
from manager.savings import Savings, count_savings
from manager.status_reading import json_object, objects

LEAST_S: Final = 5.0
"""Seconds between two looks that are compared: time enough for a share that does not jump."""
MOST_S: Final = 60.0
"""After so many seconds without a look, a share would say little about now."""


class _Look(NamedTuple):
    """The processor time of a process at a moment, in seconds, and the percentage that was found then."""

    pid: object
    used_s: float
    at: float
    percent: int | None


class ProcessorUse:
    """The percentages of a processor that servers use. Keeps one look at each server that is there."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def percents(self, status: Mapping[str, Any], now: float) -> dict[str, int]:
        """For each workspace with a server, whole percents of one processor; without those not known yet.

        Args:
            status: what `/mcp/status` shows.
            now: monotonic seconds.
        """
        there = {}
        for instance in objects(status, "instanceDetails"):
            used = instance.get("cpuSec")
            if isinstance(used, int | float):
                name = str(instance.get("workspace"))
                there[name] = _next(self._looks.get(name), instance.get("pid"), float(used), now)
        self._looks = there
        return {name: look.percent for name, look in there.items() if look.percent is not None}


def _next(before: _Look | None, pid: object, used_s: float, now: float) -> _Look:
    if before is None or before.pid != pid or now - before.at > MOST_S:
        return _Look(pid, used_s, now, None)
    if now - before.at < LEAST_S:
        return before
    return _Look(pid, used_s, now, max(0, round(100 * (used_s - before.used_s) / (now - before.at))))


EVERY_S: Final = 1.0
"""Figures that change faster cannot be read."""
SAVINGS_S: Final = 10.0
"""Between two counts of processes and memory, which change with windows and servers: rarely."""
QUIET_S: Final = 20.0
"""Longest time without an item; an empty one then shows whether the connection still works."""
MOST_PAGES: Final = 32
"""Most pages that are kept up to date at a time."""

MOST_CPU: Final = 0.015
"""Largest share of a processor that samples may take; if they take more, fewer are taken."""
MOST_ASKED: Final = 8
"""Most servers that are asked about their calls for one sample."""
ANSWER_S: Final = 0.5
"""Seconds that a page waits for the answer of a server; of a late one it shows the previous answer."""
_QUESTION_S: Final = 0.001
"""Approximate processor time of one question; it cannot be measured, since other tasks run meanwhile."""

Parts = Mapping[str, str]


class _Question(NamedTuple):
    """A server to be asked about its calls, with its pid and number of calls as the status shows them."""

    workspace: str
    root: str
    pid_and_calls: tuple[object, object]


class _LastAnswer(NamedTuple):
    """What a server last said of its calls, its pid and number of calls then, and the sample's number.

    `at` is when it said so, in monotonic seconds.
    """

    pid_and_calls: tuple[object, object]
    answer: Mapping[str, Any]
    sample: int
    at: float = 0.0


_UNKNOWN: Final = _LastAnswer((None, None), {}, 0)


class LivePages:
    """The samples that open pages share.

    Args:
        status: the status as `/mcp/status` shows it.
        moments: the figures of the last ten minutes.
        sleep: waits between two samples.
        cpu: processor time of this thread, in seconds.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        services: Services,
        status: Callable[[], dict[str, Any]],
        moments: Callable[[], Sequence[Moment]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        cpu: Callable[[], float] = time.thread_time,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._services = services
        self._status = status
        self._moments = moments
        self._sleep = sleep
        self._cpu = cpu
        self._clock = clock
        self._use = ProcessorUse()
        self._savings: Savings | None = None
        self._savings_at: float | None = None
        self._open = 0
        self._is_closed = False
        self._latest: Parts = {}
        self._changed = asyncio.Condition()
        self._sampler: asyncio.Task[None] | None = None
        self._samples = 0
        self._known: dict[str, _LastAnswer] = {}
        """By workspace."""
        self._asked: dict[str, asyncio.Task[None]] = {}
        """The questions without an answer so far, by workspace."""

    @property
    def is_full(self) -> bool:
        """Whether no further page can be kept up to date."""
        return self._open >= MOST_PAGES

    async def view(self) -> PageView:
        """What the page shows now. Asks the servers whose calls have changed, and starts none."""
        status = self._status()
        await self._count_savings(status)
        await self._ask(self._to_ask(status))
        return self._view(status)

    async def _count_savings(self, status: Mapping[str, Any]) -> None:
        """Count anew after a while. In a thread: a thousand small files of /proc take 20 ms."""
        now = self._clock()
        if self._savings_at is None or now - self._savings_at >= SAVINGS_S:
            self._savings_at = now
            self._savings = await asyncio.to_thread(count_savings, status)

    def _view(self, status: Mapping[str, Any]) -> PageView:
        now = self._clock()
        calls = {workspace: {**last.answer, "age": now - last.at} for workspace, last in self._known.items()}
        percents = self._use.percents(status, now)
        return page_view(status, calls, read_health(status, self._moments()), percents, self._savings)

    def _to_ask(self, status: Mapping[str, Any]) -> list[_Question]:
        """The servers whose calls may have changed: first those with running calls, then by age.

        Servers that were asked and have not answered yet are left out.
        """
        last_answers, candidates = {}, []
        for instance in objects(status, "instanceDetails"):
            workspace, pid_and_calls = (
                str(instance.get("workspace")),
                (instance.get("pid"), instance.get("calls")),
            )
            last = self._known.get(workspace, _UNKNOWN)
            if last.pid_and_calls[0] != pid_and_calls[0]:
                last = _UNKNOWN  # it came from an earlier process
            last_answers[workspace] = last
            if workspace not in self._asked and (
                instance.get("inFlight") or last.pid_and_calls != pid_and_calls
            ):
                question = _Question(workspace, str(instance.get("root")), pid_and_calls)
                candidates.append((not instance.get("inFlight"), last.sample, question))
        self._known = last_answers
        return [question for _, _, question in sorted(candidates, key=lambda instance: instance[:2])]

    async def _ask(self, questions: Sequence[_Question]) -> None:
        """Ask servers, and wait `ANSWER_S` for their answers; later ones are used by the next sample."""
        self._samples += 1
        begun = [self._begin(question, self._samples) for question in questions]
        if begun:
            in_time, _ = await asyncio.wait(begun, timeout=ANSWER_S)
            for task in in_time:
                task.result()

    def _begin(self, question: _Question, sample: int) -> asyncio.Task[None]:
        task = asyncio.create_task(self._ask_one(question, sample), name="page.calls")
        self._asked[question.workspace] = task
        task.add_done_callback(lambda _: self._asked.pop(question.workspace, None))
        return task

    async def _ask_one(self, question: _Question, sample: int) -> None:
        answer = await self._calls(question.root)
        self._known[question.workspace] = _LastAnswer(question.pid_and_calls, answer, sample, self._clock())

    async def changes(self) -> AsyncGenerator[Parts]:
        """Yield the parts that changed since the last item: first all of them, none after a quiet while.

        Ends when the pages are closed.
        """
        self._open += 1
        last_parts: Parts = {}
        try:
            self._sampler = self._sampler or asyncio.create_task(self._sample(), name="page.sampler")
            while not self._is_closed:
                latest = await self._after(last_parts)
                yield {name: html for name, html in latest.items() if last_parts.get(name) != html}
                last_parts = latest
        finally:
            self._open -= 1
            if self._open == 0:
                await self._end_sampler()

    async def close(self) -> None:
        """End all streams of changes; none begins again."""
        self._is_closed = True
        await self._end_sampler()
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with self._changed:
            self._changed.notify_all()

    async def _end_sampler(self) -> None:
        sampler, self._sampler, self._latest = self._sampler, None, {}
        if sampler is not None:
            sampler.cancel()
            await asyncio.gather(sampler, return_exceptions=True)

    async def _after(self, last_parts: Parts) -> Parts:
        """The first sample that differs from `shown`; `shown` itself after a quiet while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S), self._changed:
                await self._changed.wait_for(
                    lambda: self._is_closed or (self._latest and self._latest != last_parts)
                )
                return self._latest or last_parts
        return last_parts

    async def _sample(self) -> None:
        has_failed = False
        while True:
            latest, spent = self._latest, 0.0
            try:
                latest, spent = await self._taken()
                has_failed = False
            except Exception as error:  # noqa: BLE001  a sample that fails must not be the last one
                if not has_failed:
                    logger().warning("page.sample_failed", why=f"{type(error).__name__}: {error}")
                has_failed = True
            async with self._changed:
                self._latest = latest
                self._changed.notify_all()
            await self._sleep(max(EVERY_S, spent / MOST_CPU))

    async def _taken(self) -> tuple[Parts, float]:
        """One sample, and the processor time that it cost."""
        began = self._cpu()
        status = self._status()
        questions = self._to_ask(status)[:MOST_ASKED]
        spent = self._cpu() - began
        await self._count_savings(status)
        await self._ask(questions)
        began = self._cpu()
        latest = parts(self._view(status))
        return latest, spent + self._cpu() - began + len(questions) * _QUESTION_S

    async def _calls(self, root: str) -> Mapping[str, Any]:
        answer = await self._services.ask_server(root, "calls", None)
        return {} if isinstance(answer, Refusal) else json_object(answer) or {}
