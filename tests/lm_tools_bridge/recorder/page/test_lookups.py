"""Look-ups of recorded calls run beside the event loop, few at a time, and end at a deadline."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from lm_tools_bridge.recorder.call_log import CallLog, Filter
from lm_tools_bridge.recorder.page import lookups as subject
from lm_tools_bridge.recorder.page.lookups import (
    MAX_FIELD,
    PAGE_CALLS,
    CallLookups,
    FoundCall,
    FoundCalls,
    FoundFigures,
    address,
    call_number,
    read_query,
)
from support.recorded_calls import ended, file, recorder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    one = recorder(folder)
    for number in range(PAGE_CALLS + 1):
        one.observe_call(ended(f"tool-{number % 2}", outcome="error" if number == 3 else "ok"))
    one.flush()
    return folder


def lookups(folder: Path, **limits: float) -> CallLookups:
    return CallLookups(file(folder), folder / "logs", **limits)


async def test_a_page_has_so_many_calls_and_says_if_there_are_older_ones(folder: Path) -> None:
    found = await lookups(folder).calls(Filter())
    assert isinstance(found, FoundCalls)
    assert (len(found.calls), found.older, found.has_any) == (PAGE_CALLS, True, True)
    assert found.names == {"client": ["agent"], "project": ["site-1a2b"], "tool": ["tool-0", "tool-1"]}
    rest = await lookups(folder).calls(Filter(before=found.calls[-1].id))
    assert isinstance(rest, FoundCalls)
    assert ([call.id for call in rest.calls], rest.older) == ([1], False)


async def test_one_call_and_figures_are_found(folder: Path) -> None:
    found = await lookups(folder).call(4)
    assert isinstance(found, FoundCall)
    assert (found.call.outcome, found.contents, found.output) == ("error", None, [])
    assert await lookups(folder).call(10_000) is None
    figures = await lookups(folder).figures(Filter(errors=True))
    assert isinstance(figures, FoundFigures)
    assert [(one.tool, one.calls, one.errors) for one in figures.figures] == [("tool-1", 1, 1)]


async def test_without_a_database_nothing_is_recorded_yet(tmp_path: Path) -> None:
    found = await lookups(tmp_path).calls(Filter())
    assert found == FoundCalls([], older=False, has_any=False, names={})
    assert not file(tmp_path).exists(), "a look-up makes no file"


async def test_a_damaged_database_is_a_sentence(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir()
    file(tmp_path).write_bytes(b"no database" * 1000)
    found = await lookups(tmp_path).calls(Filter())
    assert isinstance(found, str)
    assert "lmtb doctor" in found


async def test_a_look_up_that_takes_too_long_is_ended_in_its_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_by: list[sqlite3.Error] = []

    def endless(log: CallLog, _: Filter, __: int) -> list[object]:
        sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT count(*) FROM n"
        try:
            log._database.execute(sql).fetchone()
        except sqlite3.Error as error:
            ended_by.append(error)
            raise
        return []

    monkeypatch.setattr(CallLog, "find", endless)
    found = await lookups(folder, deadline_s=0.05).calls(Filter())
    assert isinstance(found, str)
    assert "took too long" in found
    assert ended_by[0].sqlite_errorcode == sqlite3.SQLITE_INTERRUPT


async def test_too_many_look_ups_at_a_time_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()
    monkeypatch.setattr(CallLog, "get", lambda _log, _number: release.wait(10))
    one = lookups(folder)
    # those that begin before the first ones count as hanging may be nearly twice as many
    waiting = [asyncio.create_task(one.call(number)) for number in range(2 * subject.MOST_AT_ONCE)]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result() for task in done} == {
            "Too many look-ups run at the moment: reload the page soon."
        }
    finally:
        release.set()
        await asyncio.gather(*waiting, return_exceptions=True)


NOW_S = 1_800_000_000.0


def test_fields_become_a_filter() -> None:
    fields = {"client": " agent ", "project": "shop", "tool": "git__*", "session": "0a", "since": "2h",
              "slow": "200", "errors": "1", "before": "51", "other": "x"}  # fmt: skip
    query = read_query(fields, NOW_S)
    wanted = query.wanted
    assert query.problem is None
    assert (wanted.client, wanted.project, wanted.tool, wanted.session) == ("agent", "shop", "git__*", "0a")
    assert (wanted.errors, wanted.slower_than_us, wanted.before) == (True, 200_000, 51)
    assert wanted.since_ms == round((NOW_S - 7200) * 1000)
    assert "before" not in query.given


def test_empty_fields_choose_nothing() -> None:
    query = read_query({"client": "  ", "since": ""}, NOW_S)
    assert (query.given, query.problem, query.wanted.client) == ({}, None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("since", "soon"), ("since", "9999999999999-01"), ("slow", "x"), ("slow", "-1"), ("slow", "nan"), ("slow", "inf"),
     ("tool", "t" * (MAX_FIELD + 1))],
)  # fmt: skip
def test_what_cannot_be_used_is_said_and_nothing_is_looked_up(name: str, value: str) -> None:
    assert read_query({name: value}, NOW_S).problem is not None


@pytest.mark.parametrize("since", ["0001-01-01", "9999-12-31", "999999999999d"])
def test_times_far_away_fit_into_the_database(since: str) -> None:
    found = read_query({"since": since}, NOW_S).wanted.since_ms
    assert found is None or -(2**63) < found < 2**63


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "²", "9" * 17, "x"])
def test_other_texts_are_no_ids(text: str) -> None:
    assert call_number(text) is None
    assert read_query({"before": text}, NOW_S).wanted.before is None


def test_an_address_has_its_fields_encoded() -> None:
    assert address("/p", {"tool": '"><b>&', "n": 1}) == "/p?tool=%22%3E%3Cb%3E%26&n=1"
    assert address("/p", {}) == "/p"
