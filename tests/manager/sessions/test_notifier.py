"""Notifying exactly the sessions that a change concerns, now or on their next stream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from manager.routing.state.session_table import Session, SessionTable
from manager.sessions.notifier import SUBSCRIBED_S, Notifier
from manager.sessions.streams import Streams
from protocol import names
from support.http.event_sinks import Recorder

TOOLS = (names.TOOLS_CHANGED,)


@dataclass
class Office:
    """News for a few sessions; `clock` is turned by tests."""

    clock: float = 10_000.0
    sessions: SessionTable = field(default_factory=lambda: SessionTable(limit=100, idle_s=1e9, unused_s=1e9))

    def __post_init__(self) -> None:
        self.streams = Streams(lambda: self.clock)
        self.notifier = Notifier(self.sessions, self.streams, lambda: self.clock)

    def session(self, identity: str, **members: Any) -> Session:
        session = Session(identity, "2025-11-25", None, None, b"{}", self.clock, **members)
        self.sessions.add(session)
        return session

    async def heard(self, session: Session) -> list[str]:
        """What a session's stream says when it is opened now: methods, and for updates the resource."""
        sink = Recorder()
        standing = self.notifier.open_stream(session, sink)
        assert standing is not None
        standing.begin(sink)
        await asyncio.sleep(0)
        self.notifier.close_stream(session, sink)
        return [one.get("params", {}).get("uri") or one["method"] for one in sink.messages]


async def test_changed_lists_go_to_the_sessions_of_that_workspace_only() -> None:
    office = Office()
    bound = office.session("bound", workspace="w")
    beside = office.session("beside", implied_workspace="w")
    elsewhere = office.session("elsewhere", workspace="v", implied_workspace="u")
    office.notifier.notify_lists_changed("w", TOOLS)
    assert await office.heard(bound) == await office.heard(beside) == [names.TOOLS_CHANGED]
    assert await office.heard(elsewhere) == []


async def test_a_resource_update_goes_to_its_subscribers() -> None:
    office = Office()
    sessions = {
        "it": {"file:///a": "w"},
        "its folder": {"file:///": "w"},
        "another": {"file:///b": "w"},
        "its beginning": {"file:///": "v", "file://": "w", "file": "w"},
        "none": {},
    }
    for identity, subscriptions in sessions.items():
        office.session(identity, workspace="w", subscriptions=subscriptions)
    office.notifier.notify_resource_updated("w", "file:///a", b'{"method":"u","params":{"uri":"file:///a"}}')
    told = {one.id for one in office.sessions if await office.heard(one)}
    assert told == {"it", "its folder", "its beginning"}


@pytest.mark.parametrize("subscribed", ["file:///a", "file:///b", "fil", "file:///aa"])
async def test_a_prefix_of_a_name_is_not_a_parent(subscribed: str) -> None:
    office = Office()
    session = office.session("s", subscriptions={subscribed: "w"})
    office.notifier.notify_resource_updated("w", "file:///ab", b'{"method":"u"}')
    assert await office.heard(session) == []


async def test_a_session_that_missed_notifications_is_notified_of_everything() -> None:
    office = Office()
    session = office.session("s", workspace="w", subscriptions={"x:1": "w", "x:2": "v"})
    office.notifier.notify_all_changed(session)
    assert sorted(await office.heard(session)) == sorted([*names.LISTS_CHANGED, "x:1", "x:2"])
    office.notifier.notify_workspace_changed("w")
    assert await office.heard(session) == [*names.LISTS_CHANGED, "x:1"]


async def test_missed_notifications_are_sent_once_on_the_next_stream() -> None:
    office = Office()
    session = office.session("s", unannounced=True)
    assert await office.heard(session) == list(names.LISTS_CHANGED)
    assert await office.heard(session) == []


async def test_incomplete_lists_are_announced_when_their_workspace_serves() -> None:
    office = Office()
    session = office.session("s", workspace="w")
    session.unannounced = True
    office.notifier.notify_recovered({"w"})
    assert session.unannounced, "nowhere to say it yet"
    session.unannounced = False
    standing = office.notifier.open_stream(session, Recorder())
    session.unannounced = True
    office.notifier.notify_recovered({"v"})
    assert session.unannounced
    office.notifier.notify_recovered({"w"})
    assert not session.unannounced
    assert standing is not None


async def test_a_second_stream_is_refused_unless_it_resumes_the_first() -> None:
    office = Office()
    session, first, second = office.session("s"), Recorder(), Recorder()
    assert office.notifier.open_stream(session, first, "w")
    assert office.notifier.open_stream(session, second) is None
    assert not first.gone
    assert office.notifier.open_stream(session, second, takes_over=True)
    assert first.gone
    office.notifier.close_stream(session, first)
    assert session.streaming, "the other one has it"
    office.notifier.close_stream(session, second)
    assert not session.streaming
    assert session.implied_workspace == "w", "what its address means is known without a stream, too"


def test_interest_covers_recently_active_sessions() -> None:
    office = Office()
    office.session("quiet", workspace="quiet")
    office.session("streaming", implied_workspace="streaming", streaming=True)
    office.clock += SUBSCRIBED_S
    office.session("busy", workspace="busy", subscriptions={"a": "busy", "b": "beside"})
    office.session("also busy", workspace="busy", subscriptions={"c": "busy"})
    office.session("nowhere")
    assert office.notifier.interest() == {
        "streaming": frozenset(),
        "busy": frozenset("ac"),
        "beside": frozenset("b"),
    }


def test_the_stream_of_an_ended_session_leaves_nothing_behind() -> None:
    office = Office()
    session, sink = office.session("s"), Recorder()
    office.notifier.open_stream(session, sink)
    office.streams.forget(session)
    office.notifier.close_stream(session, sink)
    assert office.streams._server_streams == {}
