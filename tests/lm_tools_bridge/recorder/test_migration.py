"""A database of calls outlives versions of the program: older ones are upgraded, newer ones are left alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lm_tools_bridge.recorder import database as opening
from lm_tools_bridge.recorder.call_log import CallLog, Filter
from support.recorded_calls import ended, file, log_of, recorder

OLDEST = Path(__file__).with_name("calls-schema-1.sql")
"""What the first version wrote, as `sqlite3 .dump` prints it: two calls, one of them with contents."""
NEXT = "ALTER TABLE calls ADD COLUMN note TEXT;"


@pytest.fixture
def oldest(tmp_path: Path) -> Path:
    path = file(tmp_path)
    path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OLDEST.read_text(encoding="utf-8"))
    path.chmod(0o600)
    return tmp_path


def test_a_database_of_the_first_version_is_read_before_it_is_upgraded(oldest: Path) -> None:
    with log_of(oldest) as log:
        found = log.find(Filter(), 10)
        assert [call.tool for call in found] == ["git__log", "search"]
        assert [call.approval for call in found] == [None, None]


def test_a_database_of_the_first_version_is_read_and_goes_on(oldest: Path) -> None:
    one = recorder(oldest)
    one.observe_call(ended("new"))
    one.flush()
    assert one.problem is None
    with log_of(oldest) as log:
        assert [call.tool for call in log.find(Filter(), 10)] == ["new", "git__log", "search"]
        contents = log.contents(2)
        assert contents is not None
        assert contents.arguments == '{"max":3}'
        assert [call.id for call in log.find(Filter(errors=True), 10)] == [2]


def test_it_is_upgraded_by_the_next_schema_without_a_loss(
    oldest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, upgrades = opening.SCHEMA_VERSION + 1, {**opening.UPGRADES, opening.SCHEMA_VERSION: NEXT}
    prepare = opening.prepare
    monkeypatch.setattr(opening, "prepare", lambda base: prepare(base, version, upgrades))
    with closing(opening.open_to_write(file(oldest))) as database:
        assert database.execute("PRAGMA user_version").fetchone()[0] == version
        assert database.execute("SELECT count(*), count(note) FROM calls").fetchone() == (2, 0)
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    monkeypatch.undo()
    one = recorder(oldest)  # the older program: it stops recording, and nothing else
    one.observe_call(ended("lost"))
    one.flush()
    assert one.problem is not None
    assert "newer version" in one.problem
    assert one.lost == 1
    with pytest.raises(sqlite3.OperationalError, match="newer version"):
        CallLog.open(file(oldest))
    with closing(sqlite3.connect(file(oldest))) as database:
        assert database.execute("SELECT count(*) FROM calls").fetchone()[0] == 2
