"""Measures what recording calls costs: the hop with and without it, one record, and searches in a million.

Two managers are called in turns; one of them records. The other figures are processor time of this process.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.protocol.trace_context import make_traceparent
from lm_tools_bridge.recorder.call_log import CallLog, Filter
from lm_tools_bridge.recorder.recorder import FLUSH_S, Limits, Recorder
from lm_tools_bridge.recorder.retention import DAY_S
from lm_tools_bridge.recorder.rows import WHOLE_PER_S
from manager.answers.exchange import make_trace_number
from manager.call_observer import CallLabel, CallOrigin, EndedCall
from scripts.benchmarks.cases import ERAS, SIZES
from scripts.benchmarks.environment import nginx, own_manager
from scripts.benchmarks.environment.processes import cores
from scripts.benchmarks.load.comparison import compare
from scripts.benchmarks.load.wrk import Call, Target
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.rounds import Measured, median, ratio
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

CONNECTIONS: Final = 16
TURNS: Final = 4
"""Rounds of a pair of managers. Each round of the plan starts a pair anew, because managers that are alike
differ by more than recording costs, for as long as they run."""
SIZE: Final = "200B"
RECORDS: Final = 1_000_000
ALL: Final = 1e9
"""Calls a second that may have a record each, if all shall."""
BATCH: Final = 1_000
"""Calls of a burst, each of which has a record."""
FLOOD: Final = 10_000
"""Calls between two batches at 20,000 calls/s."""
TOOLS: Final = 20
TOOK: Final = CallTiming("stdio:git", 850, 0).value
"""What a workspace server says of such a call."""
SEARCHES: Final[Mapping[str, Filter]] = {
    "the newest": Filter(),
    "failures": Filter(errors=True),
    "a tool": Filter(tool="tool-3"),
    "a tool that was called once": Filter(tool="rare"),
    "failures of a tool": Filter(tool="tool-3", errors=True),
    "slower than 1 s": Filter(slower_than_us=1_000_000),
    "slower than 100 ms": Filter(slower_than_us=100_000),
    "a session that made no call": Filter(session="0" * 12),
}
COMMON: Final = ("the newest", "failures", "a tool", "a tool that was called once")


def run(plan: Plan) -> Section:
    """Measure all three."""
    hop = {era: _hop(plan, era) for era in ERAS}
    plan.say("recorder: what the event loop does for it")
    loop_us = _loop_us()
    plan.say("recorder: records")
    costs = {
        "a batch with one record": _record_us(plan.folder / "one", 1, ALL),
        "a record in a burst of 1,000 calls": _record_us(plan.folder / "few", BATCH, ALL),
        "a call, 20,000 calls/s": _record_us(plan.folder / "many", FLOOD, WHOLE_PER_S),
    }
    plan.say(f"recorder: searches in {RECORDS:,} records")
    searches, size = _searches(plan.folder / "searches")
    figures = {f"recorder {era}": each.ratio for era, each in hop.items()}
    figures["recorder loop us"] = loop_us["its record"]
    figures["record us"] = costs["a record in a burst of 1,000 calls"]
    figures["record search ms"] = max(searches[name] for name in COMMON)
    data = {
        "hop": {era: asdict(each) for era, each in hop.items()},
        "µs": costs,
        "loop µs": loop_us,
        "ms": searches,
    }
    return Section("recorder", text(hop, loop_us, costs, searches, size), data, figures)


@dataclass(frozen=True)
class Hop:
    """A call with recording `on` and `off`, as medians of the rounds.

    Attributes:
        ratio: the median of the rounds' ratios of processor time, on to off.
    """

    on: Measured
    off: Measured
    ratio: float


def _hop(plan: Plan, era: str) -> Hop:
    """A call with and without recording, by several pairs of managers."""
    plan.say(f"recorder: {era}")
    rounds = [
        one for number in range(plan.rounds) for one in _pair(plan, era, plan.folder / f"{era}-{number}")
    ]
    on, off = ([each[name] for each in rounds] for name in ("on", "off"))
    ratios = [ratio(one.cpu, other.cpu) for one, other in zip(on, off, strict=True)]
    return Hop(median(on), median(off), statistics.median(ratios))


def _pair(plan: Plan, era: str, folder: Path) -> Sequence[Mapping[str, Measured]]:
    """The rounds of two managers, `on` and `off`."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        behind, backend = stack.enter_context(nginx.server(folder, cores().backend))
        targets = {}
        for name, is_on in (("off", False), ("on", True)):
            project = own_manager.project(folder / f"project-{name}")
            one = stack.enter_context(
                own_manager.manager(folder / name, cores().measured, fork_servers=False, record_calls=is_on)
            )
            stack.enter_context(own_manager.registered(one, [project], backend, behind))
            modern = one.address(f"/w/{one.workspace(project)}/mcp")
            url = modern if era == "modern" else one.address()
            session = own_manager.bound_session(one, project)
            targets[name] = Target(name, one.pid, [url], [session], behind=[behind])
        call = Call(era, f"{SIZE}.json")
        rounds = []
        for number in range(TURNS):
            names = sorted(targets, reverse=number % 2 == 0)  # neither is always the first
            calls = {name: (call, targets[name]) for name in names}
            rounds.append(compare(calls, CONNECTIONS, replace(plan, rounds=1), b"x" * SIZES[SIZE]))
        return rounds


def _loop_us() -> Mapping[str, float]:
    """Microseconds of processor time that a call takes the event loop; the least of many batches."""
    label = next(_calls(1)).origin.label
    waiting: deque[EndedCall] = deque(maxlen=BATCH)

    def record() -> None:
        origin = CallOrigin(label, "session", 100.0, 30, "", made_trace=2**62)
        waiting.append(EndedCall(origin, 100.001, 100.002, 100.003, "ok", 400, None, TOOK))

    return {
        "its record": _each_us(record),
        "its trace context": _each_us(lambda: make_traceparent(make_trace_number())),
    }


def _each_us(act: Callable[[], object]) -> float:
    def once() -> float:
        began = time.thread_time()
        for _ in range(BATCH):
            act()
        return (time.thread_time() - began) * 1e6 / BATCH

    return _least(once, 100)


def _calls(count: int) -> Iterator[EndedCall]:
    """Calls of some tools, half of them in sessions; one in a hundred failed."""
    labels = [
        CallLabel(b"", "modern", "2026-07-28", "site-1a2b", "tools/call", f"tool-{n}", "", "query")
        for n in range(TOOLS)
    ]  # fmt: skip
    for number in range(count):
        session = f"session-{number % 7}" if number % 2 else None
        trace = 2**62 + number
        origin = CallOrigin(labels[number * 7 % TOOLS], session, 100.0, 30, made_trace=trace)
        outcome = "error" if number % 100 == 0 else "ok"
        yield EndedCall(origin, 100.001, 100.002, 100.003, outcome, 400, None, TOOK)


def _limits(whole_per_s: float) -> Limits:
    return Limits(2**30, DAY_S, DAY_S, (), whole_per_s)


def _record_us(folder: Path, calls: int, whole_per_s: float) -> float:
    """Microseconds of processor time for each of `calls` calls between two batches; the least."""
    moments = [0.0]
    one = Recorder(folder / "calls.sqlite3", _limits(whole_per_s), now=lambda: moments[-1])
    found = []
    for _ in range(40):
        moments.append(moments[-1] + FLUSH_S)
        for call in _calls(calls):
            one.observe_call(call)
        began = time.thread_time()
        one.flush()
        found.append((time.thread_time() - began) / calls * 1e6)
    one.close()
    return min(found)


def _searches(folder: Path) -> tuple[dict[str, float], float]:
    """Milliseconds of each search, with opening the file; and the bytes of a record."""
    one = Recorder(folder / "calls.sqlite3", _limits(ALL))
    for number in range(RECORDS // FLOOD):
        for call in _calls(FLOOD):
            one.observe_call(call)
        if number == 10:
            one.observe_call(_rare())
        one.flush()
    one.close()
    file = folder / "calls.sqlite3"
    return {
        name: _search_ms(file, wanted) for name, wanted in SEARCHES.items()
    }, file.stat().st_size / RECORDS


def _rare() -> EndedCall:
    label = CallLabel(b"", "modern", "2026-07-28", "site-1a2b", "tools/call", "rare", "", "query")
    origin = CallOrigin(label, None, 100.0, 30)
    return EndedCall(origin, 100.001, 100.002, 100.003, "ok", 400, None, TOOK)


def _search_ms(file: Path, wanted: Filter) -> float:
    def once() -> float:
        began = time.thread_time()
        log = CallLog.open(file)
        if log is None:
            raise RuntimeError("nothing was recorded")
        with log:
            log.find(wanted, 50)
        return (time.thread_time() - began) * 1000

    return _least(once)


def _least(measure: Callable[[], float], times: int = 3) -> float:
    return min(measure() for _ in range(times))


def text(
    hop: Mapping[str, Hop],
    loop_us: Mapping[str, float],
    costs: Mapping[str, float],
    searches: Mapping[str, float],
    size: float,
) -> str:
    """The tables."""
    rows = [
        (era, each.off.cpu, each.on.cpu, f"{each.ratio:.2f}", each.off.rate, each.on.rate)
        for era, each in hop.items()
    ]  # fmt: skip
    columns = ("200 B, 16 connections", "µs/call off", "on", "ratio in pairs", "calls/s off", "on")
    times = {f"of the event loop for a call, {name}": each for name, each in loop_us.items()}
    times |= {f"of the recorder's thread, {name}": each for name, each in costs.items()}
    thread = table(("processor time", "µs"), [*times.items()])
    found = [(name, f"{ms:.1f}") for name, ms in searches.items()]
    search = table((f"the newest 50 of {RECORDS:,} records", "ms"), found)
    return f"{table(columns, rows)}\n\n{thread}\n\n{search}\n\nA record takes {size:.0f} bytes of disk."
