"""The source of a recorded call is known by the beginning of the tool's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from lm_tools_bridge.recorder.call_log import Filter
from lm_tools_bridge.recorder.recorder import Limits, Recorder
from lm_tools_bridge.recorder.rows import BURST, UNUSUAL, allowance, choose, source_of
from lm_tools_bridge.recorder.statistics import tool_figures
from manager.call_observer import CallDetails, EndedCall
from support.recorded_calls import Clock, ended, file, log_of, recorder

SOURCES = ("builtin", "script", "stdio:git", "remote:git-hub", "stdio:git__x", "language-server:py")


@pytest.mark.parametrize(
    ("tool", "source"),
    [("git__log", "stdio:git"), ("git__x__log", "stdio:git__x"), ("git-hub__issues", "remote:git-hub"),
     ("lm_findFiles", ""), ("gitlog", ""), ("git", ""), ("py__x", ""), ("", "")],
)  # fmt: skip
def test_the_longest_namespace_that_a_name_begins_with_tells(tool: str, source: str) -> None:
    assert source_of(tool, SOURCES) == source


def test_records_have_the_source_that_was_reported(tmp_path: Path) -> None:
    known: dict[str, tuple[str, ...]] = {}
    clock = Clock()
    limits = Limits(10**8, 1e6, 1e6)
    one = Recorder(
        file(tmp_path),
        limits,
        wall=lambda: clock.wall,
        now=lambda: clock.monotonic,
    )
    one.start(lambda workspace: known.get(workspace, ()))
    one.observe_call(ended("git__log"))
    assert one.write_now(10)
    known["site-1a2b"] = SOURCES
    for tool in ("git__log", "lm_findFiles", "git__log"):
        one.observe_call(ended(tool))
    one.close()
    with log_of(tmp_path) as log:
        found = [call.source for call in log.find(Filter(), 9)]
        assert found == ["stdio:git", None, "stdio:git", None], "the first came before any was known"
        assert len(log.find(Filter(source="stdio:*"), 9)) == 2


def like(call: EndedCall, *, outcome: str = "ok", took: float = 0.01) -> EndedCall:
    """A call of the same route."""
    begun = ended(took=took).origin.begun
    return EndedCall(call.origin, begun, begun + took, call.origin.begun + took, outcome, 400)


def test_up_to_the_limit_each_call_is_kept() -> None:
    calls = [ended() for _ in range(5)]
    chosen = choose(calls, 5)
    assert (chosen.calls, chosen.more) == (calls, {})


def test_above_the_limit_the_first_of_each_label_counts_the_others() -> None:
    one, other = ended("one"), ended("other")
    calls = [like(one), like(one), like(other), like(one), like(other)]
    chosen = choose(calls, 1)
    assert chosen.calls == calls[:3]
    assert chosen.more == {1: 1, 2: 1}


def test_failures_slow_calls_and_those_with_details_are_kept() -> None:
    one = ended()
    detailed = replace(like(one), details=CallDetails(retries=1))
    usual = [like(one) for _ in range(10)]
    unusual = [like(one, outcome="error"), like(one, took=1.5), detailed]
    chosen = choose([*usual, *unusual], 4)
    assert chosen.calls == [*usual[:5], *unusual]
    assert chosen.more == {4: 5}


def test_a_flood_of_failures_is_counted_too() -> None:
    one = ended()
    flood = [like(one, outcome="error") for _ in range(1_000)]
    chosen = choose(flood, 10)
    assert len(chosen.calls) == 10 + UNUSUAL + 1
    assert chosen.more == {10 + UNUSUAL: 1_000 - len(chosen.calls)}


def test_no_call_is_lost_from_the_counts(tmp_path: Path) -> None:
    one = recorder(tmp_path, whole_per_s=100)
    first = ended()
    for number in range(5_000):
        one.observe_call(like(first, outcome="error" if number % 1_000 == 999 else "ok"))
    one.flush()
    with log_of(tmp_path) as log:
        assert log.coverage().calls == BURST + 5
        assert len(log.find(Filter(errors=True), 100)) == 5
        assert sum(call.more for call in log.find(Filter(), 2_000)) == 5_000 - (BURST + 5)
        (figures,) = tool_figures(log.figures(Filter()))
    assert (figures.calls, figures.errors) == (5_000, 5)
    assert (one.written, one.lost) == (5_000, 0)
    assert sum(total.calls for total in one.tools.list_totals()) == 5_000


def test_a_burst_is_kept_whole_and_the_rate_holds_after_it() -> None:
    room = allowance(100, 50.0)
    assert room.left(50.0) == BURST
    room.spend(5_000)
    assert room.left(50.0) == 0
    assert room.left(52.5) == 250
    room.spend(50)
    assert room.left(52.5) == 200
    assert room.left(9_999.0) == BURST
