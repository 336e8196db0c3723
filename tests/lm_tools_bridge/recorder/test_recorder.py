"""Calls are recorded off the loop, within limits, and a failing disk stops nothing but that."""

from __future__ import annotations

import contextlib
import ctypes
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.recorder import recorder as module
from lm_tools_bridge.recorder.call_log import Call, Filter
from lm_tools_bridge.recorder.database import SCHEMA_VERSION, NewerFile, open_to_write, prepare
from manager.call_observer import CallDetails
from support.recorded_calls import DAY_S, WALL, Clock, ended, file, log_of, recorder


def all_calls(folder: Path) -> list[Call]:
    with log_of(folder) as log:
        return log.find(Filter(), 10_000)


def test_a_call_is_recorded_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock)
    details = CallDetails(queue_s=0.5, start_s=2.0, retries=1, code=-32000)
    timing = CallTiming("stdio:git", 7_500, 250_000)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    one.observe_call(
        ended(
            outcome="error",
            begun=990.0,
            took=3.0,
            session="s" * 32,
            trace=f'"{trace}"',
            details=details,
            timing=timing,
        )
    )
    one.flush()
    (call,) = all_calls(tmp_path)
    assert (call.at, call.took) == (round((WALL - 10) * 1000), 3_000_000)
    assert (call.client, call.client_version, call.era, call.revision) == (
        "agent",
        "1.2",
        "modern",
        "2026-07-28",
    )
    assert (call.project, call.tool, call.source, call.decided_by) == (
        "site-1a2b",
        "search",
        "stdio:git",
        "query",
    )
    assert (call.outcome, call.code, call.retries, call.sent, call.received) == ("error", -32000, 1, 30, 400)
    assert (call.queue, call.start, call.source_took, call.server) == (500_000, 2_000_000, 7_500, 2_998_000)
    assert call.approval == 250_000
    assert call.trace == trace
    assert call.session is not None
    assert len(call.session) == 12
    assert "sss" not in call.session


def test_usual_calls_say_which_source_took_how_long(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    timings = [
        CallTiming("stdio:git", 10, 0),
        CallTiming("scripts", 20, 0),
        CallTiming("stdio:git", 30, 0),
        None,
    ]
    for timing in timings:
        one.observe_call(ended(timing=timing))
    one.observe_call(replace(ended(), timing=b"no timing"))
    one.flush()
    found = [(call.source, call.source_took) for call in reversed(all_calls(tmp_path))]
    assert found == [("stdio:git", 10), ("scripts", 20), ("stdio:git", 30), (None, None), (None, None)]


def test_times_of_waiting_are_not_the_managers(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended(took=1.002, details=CallDetails(queue_s=0.0)))
    one.flush()
    (call,) = all_calls(tmp_path)
    assert (call.manager, call.server) == (2_000, 1_000_000)


def test_the_database_is_closed_to_others(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.flush()
    assert file(tmp_path).stat().st_mode & 0o077 == 0
    assert file(tmp_path).parent.stat().st_mode & 0o077 == 0


def test_a_client_without_a_name_and_odd_texts_are_recorded(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended("\ud800" + "x" * 500, client=b""))
    one.observe_call(ended("'; DROP TABLE calls; --\x00\n", client=b"no json"))
    one.observe_call(ended(client=b'{"name":7}'))
    one.flush()
    calls = all_calls(tmp_path)
    assert [call.client for call in calls] == [None, None, None]
    assert len(calls[2].tool or "") == 200
    assert calls[1].tool == "'; DROP TABLE calls; --\x00\n"


def test_ids_go_on_with_the_next_recorder(tmp_path: Path) -> None:
    for _ in range(3):
        one = recorder(tmp_path)
        one.observe_call(ended())
        one.flush()
        one.close()
    assert [call.id for call in all_calls(tmp_path)] == [3, 2, 1]


def test_the_thread_writes_what_waits_when_it_ends(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.start()
    for _ in range(100):
        one.observe_call(ended())
    one.close(10.0)
    assert len(all_calls(tmp_path)) == 100


def test_who_reads_has_written_first_what_has_just_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 3600.0)
    one = recorder(tmp_path)
    assert one.write_now(0.0) is False, "no thread writes"
    one.start()
    try:
        for count in (1, 2, 3):
            one.observe_call(ended())
            assert one.write_now(30.0)
            assert len(all_calls(tmp_path)) == count
    finally:
        one.close(10.0)
    assert one.write_now(30.0), "nobody waits for a recorder that has ended"


def test_a_slow_disk_holds_a_reader_up_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, goes_on = recorder(tmp_path), threading.Event()
    monkeypatch.setattr(one, "flush", lambda: goes_on.wait(30))
    one.start()
    assert one.write_now(0.05) is False
    goes_on.set()
    one.close(10.0)


def test_the_oldest_calls_give_way_if_the_database_is_full(tmp_path: Path) -> None:
    one = recorder(tmp_path, size=400_000)
    for number in range(6):
        for _ in range(module.SWEEP_CALLS // 5):
            one.observe_call(ended(f"tool-{number}"))
        one.flush()
    one._next_sweep = 0.0  # the next look would come within a minute
    one.flush()
    with log_of(tmp_path) as log:
        coverage = log.coverage()
        newest = log.find(Filter(), 1)[0]
    assert 0 < coverage.bytes <= 400_000
    assert file(tmp_path).stat().st_size <= 4_000_000
    assert newest.tool == "tool-5"
    assert coverage.calls < 6 * module.SWEEP_CALLS // 5


def test_old_calls_expire(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock, age_s=2 * DAY_S)
    one.observe_call(ended("old", begun=999.0))
    one.flush()
    clock.pass_time(DAY_S)
    one.observe_call(ended("young", begun=clock.monotonic - 1))
    one.flush()
    assert [call.tool for call in all_calls(tmp_path)] == ["young", "old"]
    clock.pass_time(1.5 * DAY_S)
    one.flush()
    assert [call.tool for call in all_calls(tmp_path)] == ["young"]


def test_a_clock_that_jumps_ahead_expires_nothing(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock)
    one.observe_call(ended(begun=999.0))
    one.flush()
    clock.pass_time(3600)
    clock.wall += 10 * 365 * DAY_S
    one.observe_call(ended("later", begun=clock.monotonic - 1))
    one.flush()
    clock.pass_time(3600)
    one.flush()
    assert [call.tool for call in all_calls(tmp_path)] == ["later", "search"]


def test_nothing_expires_right_after_the_start(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended(begun=999.0))
    one.flush()
    late = Clock()
    late.wall += 365 * DAY_S  # the clock is wrong at boot
    again = recorder(tmp_path, late)
    again.flush()
    late.wall = WALL + 60  # and is set
    late.pass_time(3600)
    again.flush()
    assert len(all_calls(tmp_path)) == 1


def test_a_clock_that_is_set_back_keeps_the_order(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock)
    one.observe_call(ended("first", begun=999.0))
    one.flush()
    clock.wall -= DAY_S
    one.observe_call(ended("second", begun=999.0))
    one.flush()
    assert [call.tool for call in all_calls(tmp_path)] == ["second", "first"]


def test_a_full_disk_stops_recording_and_is_told_once(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended("before"))
    one.flush()
    database = one._database  # as full as a disk can be made here
    assert database is not None
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count={pages}")
    for _ in range(5_000):
        one.observe_call(ended("lost"))
    one.flush()
    assert one.problem is not None
    assert "full" in one.problem
    assert (one.written, one.lost) == (1, 5_000)
    database.execute("PRAGMA max_page_count=1000000")
    one.observe_call(ended("after"))
    one.flush()
    assert one.problem is None
    assert [call.tool for call in all_calls(tmp_path)] == ["after", "before"]


def test_a_removed_database_is_made_again(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended("gone"))
    one.flush()
    file(tmp_path).unlink()
    one.observe_call(ended("new"))
    one.flush()
    assert [call.tool for call in all_calls(tmp_path)] == ["new"]


def test_a_damaged_database_is_set_aside(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir(mode=0o700)
    file(tmp_path).write_bytes(b"this is no database" * 500)
    one = recorder(tmp_path)
    one.observe_call(ended())
    one.flush()
    assert len(all_calls(tmp_path)) == 1
    assert file(tmp_path).with_name("calls.sqlite3.corrupt").exists()


def test_a_database_of_a_newer_version_is_left_untouched(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended())
    one.flush()
    one.close()
    with contextlib.closing(sqlite3.connect(file(tmp_path))) as database:
        database.execute("PRAGMA user_version=99")
    before = file(tmp_path).read_bytes()
    older = recorder(tmp_path)
    older.observe_call(ended())
    older.flush()
    assert older.problem is not None
    assert "newer version" in older.problem
    assert older.lost == 1
    assert file(tmp_path).read_bytes() == before
    with pytest.raises(NewerFile):
        log_of(tmp_path)


def test_a_database_of_an_older_version_is_upgraded(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended())
    one.flush()
    one.close()
    with contextlib.closing(sqlite3.connect(file(tmp_path), isolation_level=None)) as database:
        version = SCHEMA_VERSION + 1
        prepare(database, version, {SCHEMA_VERSION: "ALTER TABLE calls ADD COLUMN later TEXT;"})
        assert database.execute("PRAGMA user_version").fetchone() == (version,)
        assert database.execute("SELECT later,took FROM calls").fetchall() == [(None, 20_000)]


def test_calls_of_each_tool_are_counted_up_to_a_limit(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    for number in range(1_000):
        one.observe_call(ended(f"tool-{number}", outcome="ok" if number % 2 else "error"))
    one.flush()
    totals = one.tools.list_totals()
    assert len(totals) == 201
    assert sum(total.calls for total in totals) == 1_000
    assert sum(total.errors for total in totals) == 500
    assert totals[-1].tool == "(other)"


def test_two_programs_may_create_the_database_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(lambda _: open_to_write(file(tmp_path)), range(8)))
    for database in opened:
        assert database.execute("SELECT count(*) FROM calls").fetchone() == (0,)
        database.close()


def test_a_database_that_another_program_writes_for_the_first_time_is_waited_for(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir(0o700)
    with contextlib.closing(
        sqlite3.connect(file(tmp_path), isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("CREATE TABLE others (x)")  # in the mode in which SQLite does not wait by itself
        other.execute("BEGIN IMMEDIATE")
        ends = threading.Timer(0.2, other.execute, ["COMMIT"])
        ends.start()
        open_to_write(file(tmp_path)).close()
        ends.join()


def test_a_database_that_stays_locked_is_an_error_after_the_wait(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir(0o700)
    with contextlib.closing(sqlite3.connect(file(tmp_path), isolation_level=None)) as other:
        other.execute("CREATE TABLE others (x)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            open_to_write(file(tmp_path), wait_s=0.05)


def test_a_batch_that_cannot_be_encoded_is_lost_and_the_next_is_not(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(replace(ended(), sent_at="no time"))  # what a fault of ours might bring
    one.flush()
    one.observe_call(ended("next"))
    one.flush()
    assert [call.tool for call in all_calls(tmp_path)] == ["next"]
    assert (one.lost, one.problem) == (1, None)


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc: `uordblks` is what is given out."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def given_out() -> int:
    """The bytes that malloc has given out."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    return int(mallinfo().uordblks)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="only glibc tells")
def test_a_look_at_the_size_frees_the_pages_that_the_database_keeps(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    for number in range(module.SWEEP_CALLS - 1):
        one.observe_call(ended(f"tool-{number % 50}", session=f"{number // 100:032}"))
    one.flush()
    kept = given_out()
    one._next_sweep = 0.0
    one.flush()
    assert kept - given_out() > 1_000_000


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="only glibc tells")
def test_batches_of_every_size_take_no_memory_for_good(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended())
    one.flush()
    before = given_out()
    for size in range(1, 130):
        for _ in range(size):
            one.observe_call(ended())
        one.flush()
    one._next_sweep = 0.0
    one.flush()
    assert given_out() - before < 1_000_000
    assert len(all_calls(tmp_path)) == 1 + sum(range(1, 130))
