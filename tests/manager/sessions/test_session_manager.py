"""Opening, expiring, restoring and ending sessions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from manager.configuration.settings import Settings
from manager.routing.state.session_table import Session, is_well_formed
from manager.sessions.session_manager import FLUSH_S, LOGGED_ONE_BY_ONE, MAX_SUBSCRIPTIONS, SessionManager
from manager.state_file import SessionRow, Store
from support.http.event_sinks import Recorder

IDLE, UNUSED = 5 * 3600.0, 15 * 60.0
CLIENT = b'{"name":"codex","version":"0.169.0","title":7}'
HEARS = b'{"name":"opencode","version":"1.18.33"}'
"""A client that lists again when it is told to; the other one never does."""


@dataclass
class Clock:
    """Two clocks a test turns: monotonic seconds, and the wall's."""

    now: float = 1000.0
    wall: float = 1_800_000_000.0

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds


@dataclass
class Setup:
    """A session manager on a state file, and its successors on the same file."""

    path: Path
    clock: Clock
    session_manager: SessionManager
    store: Store

    async def restart(self, **settings: Any) -> None:
        """Restart as after a kill: a new session manager reads the file; its monotonic clock starts again."""
        await self.store.close()
        self.clock.now = 5.0
        await self.begin(**settings)

    async def begin(self, **settings: Any) -> None:
        self.store = Store(self.path, set_aside_name=lambda: "x")
        loaded = await self.store.open()
        self.session_manager = SessionManager(
            Settings(**settings), self.store, now=lambda: self.clock.now, wall=lambda: self.clock.wall
        )
        self.session_manager.restore(loaded.sessions)

    async def open(self, identity: str | None = None, client: bytes = CLIENT) -> Session:
        session = await self.session_manager.open("2025-11-25", client, b'{"roots":{}}', identity)
        assert session is not None
        return session

    async def saved(self) -> dict[str, SessionRow]:
        """The rows that another process would find now."""
        other = Store(self.path, set_aside_name=lambda: "x")
        rows = (await other.open()).sessions
        await other.close()
        return {row.id: row for row in rows}


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    made = Setup.__new__(Setup)
    made.path, made.clock = tmp_path / "state.db", Clock()
    await made.begin()
    yield made
    await made.store.close()


# Opening -----------------------------------------------------------------------------------------------------


async def test_ids_are_random_and_well_formed(setup: Setup) -> None:
    ids = {(await setup.open()).id for _ in range(50)}
    assert len(ids) == 50
    assert all(is_well_formed(one) and len(one) >= 22 for one in ids)


async def test_the_clients_name_and_version_are_kept(setup: Setup) -> None:
    session = await setup.open()
    assert (session.client_name, session.client_version, session.capabilities) == (
        "codex",
        "0.169.0",
        b'{"roots":{}}',
    )


@pytest.mark.parametrize("client", [b"", b"{}", b"[]", b'"x"', b'{"name":7,"version":null}'])
async def test_a_client_without_a_name_has_none(setup: Setup, client: bytes) -> None:
    session = await setup.session_manager.open("2025-11-25", client, b"{}")
    assert session is not None
    assert (session.client_name, session.client_version) == (None, None)


async def test_a_session_is_saved_before_its_id_is_returned(setup: Setup) -> None:
    session = await setup.open()
    row = (await setup.saved())[session.id]
    assert (row.revision, row.used, row.workspace, row.seen) == ("2025-11-25", False, None, setup.clock.wall)


async def test_a_lost_session_can_be_opened_with_its_former_id(setup: Setup) -> None:
    session = await setup.open("my-own-id")
    assert session.id == "my-own-id"
    assert setup.session_manager.get("my-own-id") is session


async def test_a_session_above_the_limit_is_refused(setup: Setup) -> None:
    await setup.restart(session_limit=2)
    first, second = await setup.open(), await setup.open()
    for session in (first, second):
        setup.session_manager.get(session.id)
    assert await setup.session_manager.open("2025-11-25", CLIENT, b"{}") is None
    assert len(await setup.saved()) == 2
    await setup.session_manager.end(first)
    assert await setup.session_manager.open("2025-11-25", CLIENT, b"{}") is not None


async def test_expired_sessions_free_their_places_and_rows(setup: Setup) -> None:
    await setup.restart(session_limit=2)
    await setup.open("a")
    await setup.open("b")
    setup.clock.pass_(UNUSED)
    await setup.open("a")
    assert set(await setup.saved()) == {"a"}
    assert [one.id for one in setup.session_manager.sessions] == ["a"]


async def test_a_flood_of_unused_sessions_locks_nobody_out(setup: Setup) -> None:
    await setup.restart(session_limit=2)
    await setup.open("a")
    await setup.open("b")
    setup.session_manager.get("b")
    await setup.open("c")
    assert set(await setup.saved()) == {"b", "c"}


# Ending ------------------------------------------------------------------------------------------------------


async def test_sessions_expire_by_the_monotonic_clock(setup: Setup) -> None:
    """5 h used, 15 min never used."""
    unused, used = await setup.open(), await setup.open()
    setup.session_manager.get(used.id)
    setup.clock.pass_(UNUSED - 1)
    await setup.session_manager.housekeep()
    assert len(setup.session_manager.sessions) == 2
    setup.clock.pass_(1)
    await setup.session_manager.housekeep()
    assert [one.id for one in setup.session_manager.sessions] == [used.id]
    assert set(await setup.saved()) == {used.id}
    assert setup.session_manager.get(unused.id) is None
    setup.clock.pass_(IDLE - UNUSED)
    await setup.session_manager.housekeep()
    assert await setup.saved() == {}


@pytest.mark.parametrize("jump", [-1e9, 1e9])
async def test_a_jump_of_the_wall_clock_expires_nothing(setup: Setup, jump: float) -> None:
    session = await setup.open()
    setup.clock.wall += jump
    await setup.session_manager.housekeep()
    assert setup.session_manager.get(session.id) is session


async def test_ending_a_session_cancels_its_calls_and_closes_its_stream(setup: Setup) -> None:
    session = await setup.open()
    cancelled: list[int] = []
    session.in_flight.add(b"1", lambda: cancelled.append(1))
    session.in_flight.add(b'"x"', lambda: cancelled.append(2))
    sink = Recorder()
    standing = setup.session_manager.notifier.open_stream(session, sink)
    assert standing is not None
    standing.begin(sink)
    await setup.session_manager.end(session)
    assert cancelled == [1, 2]
    assert sink.closed
    assert setup.session_manager.get(session.id) is None
    assert await setup.saved() == {}


async def test_a_session_with_an_open_stream_does_not_expire(setup: Setup) -> None:
    session = await setup.open()
    sink = Recorder()
    setup.session_manager.notifier.open_stream(session, sink)
    setup.clock.pass_(10 * IDLE)
    assert setup.session_manager.sweep() == []
    setup.session_manager.notifier.close_stream(session, sink)
    setup.clock.pass_(UNUSED - 1)
    assert setup.session_manager.sweep() == []
    setup.clock.pass_(1)
    assert setup.session_manager.sweep() == [session]


# Survival ----------------------------------------------------------------------------------------------------


async def test_a_binding_is_saved_when_bind_returns(setup: Setup) -> None:
    session = await setup.open()
    await setup.session_manager.bind(session, "proj-3f9a2c1b", "/srv/proj")
    row = (await setup.saved())[session.id]
    assert (row.workspace, row.cwd) == ("proj-3f9a2c1b", "/srv/proj")


async def test_a_session_stays_bound_over_a_restart(setup: Setup) -> None:
    session = await setup.open()
    setup.session_manager.get(session.id)
    await setup.session_manager.bind(session, "w", "/srv/proj")
    setup.clock.pass_(60)
    await setup.restart()
    again = setup.session_manager.get(session.id)
    assert again is not None
    assert again is not session
    same = ("id", "revision", "client_name", "client_version", "capabilities", "workspace", "cwd", "used")
    assert [getattr(again, name) for name in same] == [getattr(session, name) for name in same]


@pytest.mark.parametrize(
    "mode",
    [(), (("X-MCP-Tool-Mode", "discovery"),), (("X-MCP-Tool-Mode", ""), ("X-MCP-Show-All", "a=b&c é+%"))],
)
async def test_a_sessions_tool_mode_survives_a_restart(
    setup: Setup, mode: tuple[tuple[str, str], ...]
) -> None:
    session = await setup.session_manager.open("2025-11-25", CLIENT, b"{}", mode=mode)
    assert session is not None
    assert session.mode == mode
    await setup.restart()
    again = setup.session_manager.get(session.id)
    assert again is not None
    assert again.mode == mode


async def test_what_decided_the_last_workspace_survives_a_restart(setup: Setup) -> None:
    """Users are shown it, and a client that is quiet since then sends nothing that would decide it again."""
    session = await setup.open()
    session.source, session.last_workspace = "header", "w-1"
    await setup.session_manager.flush()
    await setup.restart()
    (restored,) = setup.session_manager.sessions
    assert (restored.source, restored.last_workspace) == ("header", "w-1")


async def test_log_level_and_subscriptions_survive_a_restart(setup: Setup) -> None:
    session = await setup.open()
    session.log_level = "warning"
    await setup.session_manager.save(session)
    for uri in ("file:///a", 'x:\u00e9"', "gone"):
        assert await setup.session_manager.subscribe(session, uri, "w")
    await setup.session_manager.unsubscribe(session, "gone")
    await setup.session_manager.unsubscribe(session, "never there")
    await setup.restart()
    again = setup.session_manager.get(session.id)
    assert again is not None
    assert (again.log_level, again.subscriptions) == ("warning", {"file:///a": "w", 'x:\u00e9"': "w"})


async def test_after_a_restart_lists_are_announced_as_changed(setup: Setup) -> None:
    """On the next stream and in front of the next answer. A killed manager may not have saved the use."""
    saved, unsaved = await setup.open(client=HEARS), await setup.open(client=HEARS)
    for session in (saved, unsaved):
        setup.session_manager.get(session.id)
    await setup.session_manager.bind(saved, "w", "/")
    await setup.restart()
    announced = {one.id: (one.unannounced, one.list_due) for one in setup.session_manager.sessions}
    assert announced == {saved.id: (True, True), unsaved.id: (True, True)}


async def test_after_a_restart_a_client_that_never_lists_again_has_nothing_due(setup: Setup) -> None:
    session = await setup.open()
    await setup.restart()
    (restored,) = setup.session_manager.sessions
    assert (restored.id, restored.list_due) == (session.id, False)


async def test_after_a_restart_subscribed_resources_are_announced(setup: Setup) -> None:
    """Also to a client that does not say which event was its last."""
    session, sink = await setup.open(), Recorder()
    await setup.session_manager.subscribe(session, "a:b", "w")
    await setup.restart()
    again = setup.session_manager.get(session.id)
    assert again is not None
    standing = setup.session_manager.notifier.open_stream(again, sink)
    assert standing is not None
    standing.begin(sink)
    await sink.count(4)
    assert {"uri": "a:b"} in [message.get("params") for message in sink.messages]


async def test_the_subscriptions_of_a_session_are_limited(setup: Setup) -> None:
    session = await setup.open()
    session.subscriptions = dict.fromkeys(map(str, range(MAX_SUBSCRIPTIONS)), "w")
    assert not await setup.session_manager.subscribe(session, "one more", "w")
    assert await setup.session_manager.subscribe(session, "0", "v")
    assert len(session.subscriptions) == MAX_SUBSCRIPTIONS


async def test_binding_another_workspace_ends_subscriptions_in_the_former(setup: Setup) -> None:
    session = await setup.open()
    await setup.session_manager.bind(session, "w", "/w")
    for uri, home in (("a", "w"), ("b", "elsewhere")):
        await setup.session_manager.subscribe(session, uri, home)
    await setup.session_manager.bind(session, "w", "/w/sub")
    assert set(session.subscriptions) == {"a", "b"}
    await setup.session_manager.bind(session, "v", "/v")
    assert set(session.subscriptions) == {"b"}


@pytest.mark.parametrize(
    "away", [-1e9, 0.0, 60.0, IDLE, 1e9], ids=["jump back", "none", "minute", "hours", "jump on"]
)
@pytest.mark.parametrize("used", [True, False])
async def test_no_restart_expires_a_session_by_the_wall_clock(setup: Setup, away: float, used: bool) -> None:
    """Only awake time counts."""
    session = await setup.open()
    session.used = used
    await setup.session_manager.bind(session, "w", "/srv/proj")
    setup.clock.wall += away
    await setup.restart()
    await setup.session_manager.housekeep()
    assert [one.id for one in setup.session_manager.sessions] == [session.id]


async def test_time_before_a_restart_counts_up_to_half_the_lifetime(setup: Setup) -> None:
    """So that a session nobody uses ends in spite of restarts."""
    session = await setup.open()
    setup.session_manager.get(session.id)
    await setup.session_manager.bind(session, "w", "/")
    setup.clock.pass_(IDLE / 4)
    await setup.restart()
    setup.clock.pass_(IDLE * 3 / 4 - 1)
    assert setup.session_manager.sweep() == []
    setup.clock.pass_(1)
    assert [one.id for one in setup.session_manager.sweep()] == [session.id]


async def test_the_last_use_of_sessions_is_saved_every_30_seconds(setup: Setup) -> None:
    session, quiet = await setup.open(), await setup.open()
    before = (await setup.saved())[quiet.id].seen
    setup.clock.pass_(FLUSH_S - 1)
    setup.session_manager.get(session.id)
    await setup.session_manager.housekeep()
    assert (await setup.saved())[session.id].seen == before, "too early"
    setup.clock.pass_(1)
    await setup.session_manager.housekeep()
    rows = await setup.saved()
    assert (rows[session.id].seen, rows[session.id].used) == (before + FLUSH_S - 1, True)
    assert rows[quiet.id].seen == before


# Listing -----------------------------------------------------------------------------------------------------


async def test_without_a_stream_no_list_change_is_sent(setup: Setup) -> None:
    session = await setup.open()
    assert setup.session_manager.notify_lists_changed(session) is False
    setup.session_manager.notifier.open_stream(session, Recorder())
    assert setup.session_manager.notify_lists_changed(session) is True


async def test_waiting_for_a_tool_list_ends_with_it_or_with_the_time(setup: Setup) -> None:
    session = await setup.open()
    setup.session_manager.expect_tools_list(session)
    async with asyncio.timeout(5):
        await setup.session_manager.wait_for_tools_list(session, 0.001)
    waiting = asyncio.create_task(setup.session_manager.wait_for_tools_list(session, 3600.0))
    await asyncio.sleep(0)
    setup.session_manager.note_tools_list(session)
    async with asyncio.timeout(5):
        await waiting


async def test_a_tool_list_before_the_change_does_not_count(setup: Setup) -> None:
    session = await setup.open()
    setup.session_manager.expect_tools_list(session)
    setup.session_manager.note_tools_list(session)
    setup.session_manager.expect_tools_list(session)
    waiting = asyncio.create_task(setup.session_manager.wait_for_tools_list(session, 0.05))
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting


async def test_handshakes_of_one_session_take_turns(setup: Setup) -> None:
    one, other = await setup.open(), await setup.open()
    assert setup.session_manager.handshake_lock(one) is setup.session_manager.handshake_lock(one)
    assert setup.session_manager.handshake_lock(one) is not setup.session_manager.handshake_lock(other)


@pytest.mark.parametrize(("streaming", "age"), list(itertools.product([True, False], [0.0, 899.0, 900.0])))
async def test_a_workspace_is_active_while_its_sessions_are(
    setup: Setup, streaming: bool, age: float
) -> None:
    """Whether it chose the workspace or only means it."""
    session, unbound = await setup.open(), await setup.open()
    setattr(session, "workspace" if streaming else "implied_workspace", "w")
    unbound.streaming = True
    if streaming:
        setup.session_manager.notifier.open_stream(session, Recorder())
    setup.clock.pass_(age)
    assert setup.session_manager.active_workspaces(900.0) == ({"w"} if streaming or age < 900 else set())


async def test_sessions_can_be_opened_while_the_disk_fails(setup: Setup) -> None:
    work: Callable[[], Awaitable[None]] = setup.store.close
    await work()
    setup.store = Store(setup.path.parent / "no" / "such" / "folder", set_aside_name=lambda: "x")
    await setup.store.open()
    session_manager = SessionManager(
        Settings(), setup.store, now=lambda: setup.clock.now, wall=lambda: setup.clock.wall
    )
    session = await session_manager.open("2025-11-25", CLIENT, b"{}")
    assert session is not None
    await session_manager.bind(session, "w", "/")
    await session_manager.flush()
    assert session_manager.get(session.id) is session


async def test_client_information_is_limited_in_size(setup: Setup) -> None:
    """Ten thousand sessions share our memory, and a body may hold 16 MiB."""
    long = b"x" * 100_000
    client = b'{"name":"' + long + b'","version":"' + long + b'"}'
    session = await setup.session_manager.open("2025-11-25", client, b'{"roots":{"' + long + b'":1}}')
    assert session is not None
    kept = (session.client_name or "") + (session.client_version or "")
    assert kept and len(kept) + len(session.capabilities) < 1000


async def test_sessions_that_expire_together_are_one_line_in_the_log(setup: Setup) -> None:
    for _ in range(LOGGED_ONE_BY_ONE + 1):
        await setup.open()
    setup.clock.pass_(UNUSED + 1)
    with structlog.testing.capture_logs() as lines:
        assert len(setup.session_manager.sweep()) == LOGGED_ONE_BY_ONE + 1
    assert [line["expired"] for line in lines] == [f"{LOGGED_ONE_BY_ONE + 1} sessions"]
