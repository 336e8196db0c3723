"""Recorded calls are found by client, project, tool, outcome, duration and time, newest first."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.recorder import retention
from lm_tools_bridge.recorder.call_log import CallLog, Filter
from lm_tools_bridge.recorder.database import open_to_write
from lm_tools_bridge.recorder.rows import session_digest
from lm_tools_bridge.recorder.statistics import percentile, tool_figures
from support.recorded_calls import WALL, Clock, ended, file, log_of, recorder

OTHER = b'{"name":"other","version":"9"}'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 calls, one each second, the last one a second ago."""
    folder = tmp_path_factory.mktemp("calls")
    clock = Clock()
    one = recorder(folder, clock)
    for number in range(60):
        one.observe_call(
            ended(
                f"tool-{number % 3}",
                client=OTHER if number % 2 else b'{"name":"agent","version":"1"}',
                workspace="shop-9f" if number % 4 == 0 else "site-1a2b",
                outcome="error" if number % 10 == 0 else "ok",
                took=5.0 if number == 30 else 0.3 if number == 31 else 0.01,
                session="secret-session" if number == 7 else None,
                begun=clock.monotonic - 60 + number,
                timing=CallTiming("scripts", 1_000, 0) if number % 3 == 2 else None,
            )
        )
    one.flush()
    one.close()
    return folder


@pytest.fixture
def log(folder: Path) -> Iterator[CallLog]:
    with log_of(folder) as opened:
        yield opened


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, range(60)),
        ({"tool": "tool-1"}, range(1, 60, 3)),
        ({"tool": "tool-[12]"}, [n for n in range(60) if n % 3]),
        ({"client": "other"}, range(1, 60, 2)),
        ({"client": "oth*", "tool": "tool-0"}, range(3, 60, 6)),
        ({"project": "shop"}, range(0, 60, 4)),
        ({"project": "shop-9f"}, range(0, 60, 4)),
        ({"source": "scripts"}, range(2, 60, 3)),
        ({"errors": True}, range(0, 60, 10)),
        ({"errors": True, "tool": "tool-1"}, [10, 40]),
        ({"slower_than_us": 1_000_000}, [30]),
        ({"slower_than_us": 200_000}, [30, 31]),
        ({"since_ms": round((WALL - 10) * 1000)}, range(50, 60)),
        ({"since_ms": round((WALL - 10) * 1000), "errors": True}, [50]),
        ({"since_ms": round((WALL + 10) * 1000)}, []),
        ({"session": session_digest("secret-session")}, [7]),
        ({"tool": "nothing"}, []),
        ({"after": 58}, [58, 59]),
        ({"before": 3}, [0, 1]),
    ],
)
def test_a_filter_finds_its_calls_newest_first(log: CallLog, wanted: dict[str, Any], ids: Any) -> None:
    filtered = Filter(**wanted)
    expected = sorted((number + 1 for number in ids), reverse=True)
    assert [call.id for call in log.find(filtered, 100)] == expected
    assert [call.id for call in log.in_order(filtered, page=7)] == expected[::-1]
    assert sum(1 for _ in log.figures(filtered)) == len(expected)


def test_pages_follow_each_other_without_gap_or_overlap(log: CallLog) -> None:
    seen: list[int] = []
    wanted = Filter(client="other")
    while page := log.find(wanted, 4):
        seen += [call.id for call in page]
        wanted = Filter(client="other", before=page[-1].id)
    assert seen == list(range(60, 0, -2))


def test_one_call_is_found_by_its_id(log: CallLog) -> None:
    call = log.get(31)
    assert call is not None
    assert (call.tool, call.took, call.outcome) == ("tool-0", 5_000_000, "error")
    assert log.get(4711) is None
    assert log.contents(31) is None
    assert log.last_id() == 60


def test_coverage_says_what_there_is(log: CallLog) -> None:
    coverage = log.coverage()
    assert (coverage.calls, coverage.contents) == (60, 0)
    assert coverage.oldest == round((WALL - 60) * 1000)
    assert coverage.newest == round((WALL - 1) * 1000)


def test_nothing_recorded_yet_is_no_error(tmp_path: Path) -> None:
    assert CallLog.open(file(tmp_path)) is None


def test_calls_are_read_while_more_are_written(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended())
    one.flush()
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            for _ in range(100):
                one.observe_call(ended())
            one.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with log_of(tmp_path) as log:
            last = 0
            for _ in range(30):
                (newest,) = log.find(Filter(tool="search"), 1)
                assert newest.id >= last
                last = newest.id
    finally:
        stopped.set()
        writer.join()
        one.close()


def test_figures_are_grouped_by_tool_and_client(log: CallLog) -> None:
    found = {(one.tool, one.client): one for one in tool_figures(log.figures(Filter()))}
    assert len(found) == 6
    one = found["tool-0", "agent"]
    assert (one.calls, one.errors, one.p50, one.p99) == (10, 2, 10_000, 5_000_000)
    assert (one.sent, one.received, one.tokens) == (300, 4_000, 1_075)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_a_value_that_occurred(share: float, value: int) -> None:
    assert percentile(list(range(1, 101)), share) == value
    assert percentile([], share) == 0


def test_the_median_of_a_quick_and_a_slow_call_is_the_quick_one() -> None:
    assert percentile([13, 2_000], 0.5) == 13


def test_searches_of_thousands_of_calls_find_the_rare_ones(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    rare = {1: "first", 1500: "rare", 2047: "rare", 2048: "rare", 5000: "last"}
    for number in range(1, 5001):
        slow = 3.0 if number == 1023 else 0.01
        one.observe_call(
            ended(rare.get(number, "common"), took=slow, outcome="ok" if number != 4000 else "error")
        )
        if number % 777 == 0:
            one.flush()
    one.flush()
    with log_of(tmp_path) as log:
        assert [call.id for call in log.find(Filter(tool="rare"), 9)] == [2048, 2047, 1500]
        assert [call.id for call in log.find(Filter(tool="rare", before=2048), 1)] == [2047]
        assert [call.id for call in log.find(Filter(tool="[fl]*st"), 9)] == [5000, 1]
        assert [call.id for call in log.find(Filter(errors=True), 9)] == [4000]
        assert [call.id for call in log.find(Filter(slower_than_us=2_000_000), 9)] == [1023]
        assert [call.id for call in log.find(Filter(tool="common"), 3)] == [4999, 4998, 4997]


def test_calls_are_found_after_another_program_removed_all(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended("before"))
    one.flush()
    with contextlib.closing(open_to_write(file(tmp_path))) as database:
        retention.purge(database, calls=True)
    one.observe_call(ended("after"))
    one.flush()
    with log_of(tmp_path) as log:
        assert [call.tool for call in log.find(Filter(tool="*e*"), 9)] == ["after"]
        assert [call.tool for call in log.find(Filter(tool="after"), 9)] == ["after"]
        assert log.find(Filter(tool="before"), 9) == []


def test_calls_that_go_on_are_no_errors_and_tasks_count_when_they_have_ended(tmp_path: Path) -> None:
    one = recorder(tmp_path, Clock())
    outcomes = ("ok", "input_required", "task", "task", "cancelled")
    for number, outcome in enumerate(outcomes):
        one.observe_call(ended(outcome=outcome, took=20.0 if number == 0 else 0.2))
    one.flush()
    (total,) = one.tools.list_totals()
    one.close()
    with log_of(tmp_path) as log:
        assert [call.outcome for call in log.find(Filter(errors=True), 9)] == ["cancelled"]
        (figures,) = tool_figures(log.figures(Filter()))
    assert (figures.calls, figures.errors, figures.p99) == (3, 1, 20_000_000)
    assert (total.calls, total.errors) == (3, 1)


def test_a_long_call_among_younger_ones_hides_none_of_them(tmp_path: Path) -> None:
    """Ids ascend with the ends of calls; a call may have begun long before others that ended earlier."""
    clock = Clock()
    one = recorder(tmp_path, clock)
    for number in range(9):
        end = clock.monotonic - 9 + number
        took = 500.0 if number == 4 else 0.1
        one.observe_call(ended(begun=end - took, took=took))
    one.flush()
    one.close()
    with log_of(tmp_path) as log:
        found = [call.id for call in log.find(Filter(since_ms=round((WALL - 60) * 1000)), 20)]
    assert found == [9, 8, 7, 6, 4, 3, 2, 1]
