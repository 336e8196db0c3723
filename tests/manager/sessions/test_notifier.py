"""Notifying exactly the sessions that a change concerns, now or on their next stream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from manager.routing.state.session_table import Session, SessionTable
from manager.sessions.notifier import SUBSCRIBED_S, Notifier
from manager.sessions.streams import Streams
from support.http.event_sinks import Recorder

TOOLS = (names.TOOLS_CHANGED,)


@dataclass
class Setup:
    """A notifier with a few sessions; tests set `clock`."""

    clock: float = 10_000.0
    sessions: SessionTable = field(default_factory=lambda: SessionTable(limit=100, idle_s=1e9, unused_s=1e9))

    def __post_init__(self) -> None:
        self.streams = Streams(lambda: self.clock)
        self.notifier = Notifier(self.sessions, self.streams, lambda: self.clock)

    def session(self, identity: str, **members: Any) -> Session:
        session = Session(identity, "2025-11-25", None, None, b"{}", self.clock, **members)
        self.sessions.add(session)
        return session

    async def sent_to(self, session: Session) -> list[str]:
        """What a session's stream says when it is opened now: methods, and for updates the resource."""
        sink = Recorder()
        server_stream = self.notifier.open_stream(session, sink)
        assert server_stream is not None
        server_stream.begin(sink)
        await asyncio.sleep(0)
        self.notifier.close_stream(session, sink)
        return [one.get("params", {}).get("uri") or one["method"] for one in sink.messages]


async def test_changed_lists_go_to_the_sessions_of_that_workspace_only() -> None:
    setup = Setup()
    bound = setup.session("bound", workspace="w")
    beside = setup.session("beside", implied_workspace="w")
    elsewhere = setup.session("elsewhere", workspace="v", implied_workspace="u")
    setup.notifier.notify_lists_changed("w", TOOLS)
    assert await setup.sent_to(bound) == await setup.sent_to(beside) == [names.TOOLS_CHANGED]
    assert await setup.sent_to(elsewhere) == []


async def test_a_resource_update_goes_to_its_subscribers() -> None:
    setup = Setup()
    sessions = {
        "it": {"file:///a": "w"},
        "its folder": {"file:///": "w"},
        "another": {"file:///b": "w"},
        "its beginning": {"file:///": "v", "file://": "w", "file": "w"},
        "none": {},
    }
    for identity, subscriptions in sessions.items():
        setup.session(identity, workspace="w", subscriptions=subscriptions)
    setup.notifier.notify_resource_updated("w", "file:///a", b'{"method":"u","params":{"uri":"file:///a"}}')
    notified = {one.id for one in setup.sessions if await setup.sent_to(one)}
    assert notified == {"it", "its folder", "its beginning"}


@pytest.mark.parametrize("subscribed", ["file:///a", "file:///b", "fil", "file:///aa"])
async def test_a_prefix_of_a_name_is_not_a_parent(subscribed: str) -> None:
    setup = Setup()
    session = setup.session("s", subscriptions={subscribed: "w"})
    setup.notifier.notify_resource_updated("w", "file:///ab", b'{"method":"u"}')
    assert await setup.sent_to(session) == []


async def test_a_session_that_missed_notifications_is_notified_of_everything() -> None:
    setup = Setup()
    session = setup.session("s", workspace="w", subscriptions={"x:1": "w", "x:2": "v"})
    setup.notifier.notify_all_changed(session)
    assert sorted(await setup.sent_to(session)) == sorted([*names.LISTS_CHANGED, "x:1", "x:2"])
    setup.notifier.notify_workspace_changed("w")
    assert await setup.sent_to(session) == [*names.LISTS_CHANGED, "x:1"]


async def test_missed_notifications_are_sent_once_on_the_next_stream() -> None:
    setup = Setup()
    session = setup.session("s", unannounced=True)
    assert await setup.sent_to(session) == list(names.LISTS_CHANGED)
    assert await setup.sent_to(session) == []


async def test_incomplete_lists_are_announced_when_their_workspace_serves() -> None:
    setup = Setup()
    session = setup.session("s", workspace="w")
    session.unannounced = True
    setup.notifier.notify_recovered({"w"})
    assert session.unannounced, "nowhere to say it yet"
    session.unannounced = False
    server_stream = setup.notifier.open_stream(session, Recorder())
    session.unannounced = True
    setup.notifier.notify_recovered({"v"})
    assert session.unannounced
    setup.notifier.notify_recovered({"w"})
    assert not session.unannounced
    assert server_stream is not None


async def test_a_second_stream_is_refused_unless_it_resumes_the_first() -> None:
    setup = Setup()
    session, first, second = setup.session("s"), Recorder(), Recorder()
    assert setup.notifier.open_stream(session, first, "w")
    assert setup.notifier.open_stream(session, second) is None
    assert not first.gone
    assert setup.notifier.open_stream(session, second, takes_over=True)
    assert first.gone
    setup.notifier.close_stream(session, first)
    assert session.streaming, "the other one has it"
    setup.notifier.close_stream(session, second)
    assert not session.streaming
    assert session.implied_workspace == "w", "what its address means is known without a stream, too"


def test_interest_covers_recently_active_sessions() -> None:
    setup = Setup()
    setup.session("quiet", workspace="quiet")
    setup.session("streaming", implied_workspace="streaming", streaming=True)
    setup.clock += SUBSCRIBED_S
    setup.session("busy", workspace="busy", subscriptions={"a": "busy", "b": "beside"})
    setup.session("also busy", workspace="busy", subscriptions={"c": "busy"})
    setup.session("nowhere")
    assert setup.notifier.interest() == {
        "streaming": frozenset(),
        "busy": frozenset("ac"),
        "beside": frozenset("b"),
    }


def test_the_stream_of_an_ended_session_leaves_nothing_behind() -> None:
    setup = Setup()
    session, sink = setup.session("s"), Recorder()
    setup.notifier.open_stream(session, sink)
    setup.streams.forget(session)
    setup.notifier.close_stream(session, sink)
    assert setup.streams._server_streams == {}
