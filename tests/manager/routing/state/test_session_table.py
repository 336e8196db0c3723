"""Tests of the session table: entries, expiry and the form of ids."""

from __future__ import annotations

from typing import Any

import pytest

from manager.routing.state.session_table import RECENT_S, InFlight, Session, SessionTable, is_well_formed

IDLE, UNUSED = 5 * 3600.0, 15 * 60.0


def table(limit: int = 3) -> SessionTable:
    return SessionTable(limit=limit, idle_s=IDLE, unused_s=UNUSED)


def enter(sessions: SessionTable, identity: str = "s", seen: float = 0.0, **members: Any) -> Session:
    client = members.pop("client_name", None)
    session = Session(identity, "2025-11-25", client, None, b"{}", seen)
    for name, value in members.items():
        setattr(session, name, value)
    sessions.add(session)
    return session


def test_a_session_unused_after_initialize_ends_after_15_minutes() -> None:
    sessions = table()
    enter(sessions)
    assert [one.id for one in sessions.sweep(UNUSED - 0.001)] == []
    assert [one.id for one in sessions.sweep(UNUSED)] == ["s"]
    assert len(sessions) == 0


def test_a_used_session_ends_after_five_idle_hours() -> None:
    sessions = table()
    enter(sessions)
    assert sessions.get("s", 10.0) is not None
    assert sessions.get("s", 10.0 + IDLE - 0.001) is not None
    assert sessions.get("s", 10.0 + 2 * IDLE) is None


def test_every_request_restarts_the_idle_time() -> None:
    sessions = table()
    session = enter(sessions)
    for now in range(0, int(10 * IDLE), int(IDLE) - 1):
        assert sessions.get("s", float(now)) is session


def test_an_expired_session_is_unknown_before_it_is_swept() -> None:
    sessions = table()
    enter(sessions)
    assert sessions.get("s", UNUSED) is None
    assert sessions.get("t", 0.0) is None


@pytest.mark.parametrize("busy", [{"streaming": True}, {"in_flight": {b"1": lambda: None}}])
def test_an_open_stream_or_a_call_in_flight_keeps_a_session(busy: dict[str, Any]) -> None:
    sessions = table()
    enter(sessions, **busy)
    assert sessions.sweep(100 * IDLE) == []
    assert sessions.get("s", 100 * IDLE) is not None


def test_the_table_is_full_at_its_limit_until_a_session_ends() -> None:
    sessions = table(limit=2)
    enter(sessions, "a")
    assert not sessions.is_full(None)
    enter(sessions, "b")
    assert sessions.is_full(None)
    removed = sessions.remove("a")
    assert removed is not None
    assert removed.id == "a"
    assert not sessions.is_full(None)
    assert sessions.remove("a") is None


def opened(sessions: SessionTable, identity: str, client: str | None, **members: Any) -> None:
    enter(sessions, identity, client_name=client, **members)


def room(sessions: SessionTable, now: float, client: str | None = None) -> list[str]:
    return [session.id for session in sessions.make_room(client, now)]


def test_the_oldest_sessions_that_were_never_used_make_room_first() -> None:
    sessions = table(limit=5)
    enter(sessions, "used", used=True)
    enter(sessions, "streaming", streaming=True)
    for number in range(4):
        enter(sessions, f"unused-{number}", seen=float(number))
    assert room(sessions, 5.0) == ["unused-0"]
    enter(sessions, "unused-4", seen=5.0)
    enter(sessions, "unused-5", seen=5.0)
    assert room(sessions, 5.0) == ["unused-1"]


def test_used_sessions_make_room_once_they_rest() -> None:
    sessions = table(limit=3)
    for number in range(2):
        enter(sessions, f"used-{number}", used=True, seen=float(number))
    enter(sessions, "busy", in_flight=InFlight({b"1": lambda: None}))
    assert room(sessions, RECENT_S - 0.001) == []
    assert room(sessions, RECENT_S + 1.0) == ["used-0"]


def test_expired_sessions_make_room_before_others() -> None:
    sessions = table()
    enter(sessions, "expired")
    enter(sessions, "unused", seen=UNUSED - 1.0)
    enter(sessions, "used", seen=UNUSED - 1.0)
    assert room(sessions, UNUSED) == ["expired"]


@pytest.mark.parametrize("used", [False, True])
def test_a_client_that_opens_very_many_sessions_leaves_a_quarter_to_the_others(used: bool) -> None:
    sessions = table(limit=100)
    opened(sessions, "other", "codex")
    for number in range(75):
        opened(sessions, f"flood-{number}", "leaky", used=used)
    assert sessions.is_full("leaky")
    assert not sessions.is_full("codex")
    assert not sessions.is_full(None)
    assert room(sessions, 0.0, "leaky") == ([] if used else ["flood-0"])
    assert sessions.peek("other") is not None


@pytest.mark.parametrize("used", [False, True])
def test_a_client_above_its_quota_replaces_its_own_sessions_only(used: bool) -> None:
    sessions = table(limit=100)
    opened(sessions, "other", "codex", used=used, seen=-100.0)
    for number in range(75):
        opened(sessions, f"flood-{number}", "leaky", used=used)
    assert room(sessions, RECENT_S, "leaky") == ["flood-0"]
    assert not sessions.is_full("leaky")


def test_a_flood_under_many_names_replaces_itself() -> None:
    sessions = table(limit=100)
    opened(sessions, "other", "codex", used=True)
    for number in range(99):
        opened(sessions, f"flood-{number}", f"name-{number}", seen=number / 1000)
    assert room(sessions, 0.1, "claude") == ["flood-0"]
    assert not sessions.is_full("claude")
    assert sessions.peek("other") is not None


@pytest.mark.parametrize(
    ("identity", "good"),
    [
        ("a", True),
        ("!~", True),
        ("x" * 128, True),
        ("83795f1e-eb58-4caa-9256-2a257a64e4b4", True),
        ("", False),
        ("x" * 129, False),
        ("a b", False),
        ("a\x7f", False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_an_id_is_1_to_128_visible_ascii_characters(identity: str, good: bool) -> None:
    assert is_well_formed(identity) is good
