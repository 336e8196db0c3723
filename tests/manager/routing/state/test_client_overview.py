"""Who is connected, from the tables of sessions and of recent clients."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol import headers
from manager.routing.resolution import Claims
from manager.routing.state.client_overview import (
    CONNECTED_S,
    GONE_S,
    ClientRow,
    ClientState,
    client_rows,
    count_connected,
)
from manager.routing.state.clients import (
    MAX_PROJECTS,
    MAX_REQUESTS,
    Client,
    ClientProcess,
    Peer,
    RecentClients,
    RequestRecord,
)
from manager.routing.state.session_table import Session

NOW = 100_000.0


def session(
    identity: str, silent: float = 0.0, name: str = "codex", workspace: str | None = "w-1"
) -> Session:
    made = Session(identity, "2025-11-25", name, "1.0", b"", NOW - silent)
    made.source, made.last_workspace = "header", workspace
    return made


def stateless(name: bytes = b"claude-code", revision: str = "2026-07-28") -> Client:
    return Client(b'{"name":"%s","version":"2"}' % name, "modern", revision)


def request(
    silent: float = 0.0, workspace: str | None = "w-1", claims: Claims | None = None
) -> RequestRecord:
    decided = {headers.WORKSPACE_SOURCE: "query", headers.WORKSPACE_ID: workspace} if workspace else {}
    return RequestRecord(NOW - silent, "tools/call", claims or Claims(), decided)


def rows(*sessions: Session, recent: RecentClients | None = None) -> list[ClientRow]:
    return client_rows(sessions, recent or RecentClients(), NOW)


def recorded(*requests: RequestRecord) -> RecentClients:
    recent = RecentClients()
    for one in requests:
        recent.record(stateless(), one)
    return recent


@pytest.mark.parametrize(
    ("silent", "state"),
    [
        (0, ClientState.CONNECTED),
        (CONNECTED_S, ClientState.CONNECTED),
        (CONNECTED_S + 1, ClientState.IDLE),
        (GONE_S, ClientState.IDLE),
        (GONE_S + 1, ClientState.GONE),
    ],
)
def test_silence_makes_clients_of_both_eras_idle_and_then_gone(silent: float, state: ClientState) -> None:
    (of_session,) = rows(session("a", silent))
    (of_stateless,) = rows(recent=recorded(request(silent)))
    assert (of_session.state, of_stateless.state) == (state, state)


def peer(ended_at: float | None, pid: int = 1) -> Peer:
    """A connection of a process that ended at this time, or still runs."""
    made = Peer((("127.0.0.1", 1), ("127.0.0.1", 2)))
    made.process = ClientProcess(pid, "start")
    made.process.ended_at = ended_at
    return made


def from_peer(record: RequestRecord, sender: Peer) -> RequestRecord:
    record.peer = sender
    return record


@pytest.mark.parametrize(
    ("ended_at", "state"),
    [(None, ClientState.CONNECTED), (NOW, ClientState.GONE), (NOW - 20, ClientState.CONNECTED)],
    ids=["runs", "ended", "ended before the last request"],
)
def test_a_client_of_either_era_is_gone_once_its_process_has_ended(
    ended_at: float | None, state: ClientState
) -> None:
    made = session("a", 10)
    made.peer = peer(ended_at)
    (of_session,) = rows(made)
    (of_stateless,) = rows(recent=recorded(from_peer(request(10), peer(ended_at))))
    assert (of_session.state, of_stateless.state) == (state, state)


@pytest.mark.parametrize("silent", [0, 20])
def test_of_several_processes_of_a_client_all_have_to_end(silent: int) -> None:
    ended, running = peer(NOW), peer(None, pid=2)
    requests = [from_peer(request(silent), running)]
    requests += [from_peer(request(10), ended) for _ in range(2 * MAX_REQUESTS)]
    (row,) = rows(recent=recorded(*requests))
    assert row.state is ClientState.CONNECTED
    assert running.process is not None
    running.process.ended_at = NOW
    (row,) = rows(recent=recorded(*requests))
    assert row.state is ClientState.GONE


def test_the_process_of_one_project_ends_without_that_of_another() -> None:
    recent = recorded(
        from_peer(request(1, "w-1"), peer(NOW)), from_peer(request(1, "w-2"), peer(None, pid=2))
    )
    states = {row.workspace: row.state for row in rows(recent=recent)}
    assert states == {"w-1": ClientState.GONE, "w-2": ClientState.CONNECTED}


def test_a_client_whose_process_is_unknown_is_judged_by_its_silence() -> None:
    unknown = Peer((("10.0.0.1", 1), ("10.0.0.2", 2)))
    (row,) = rows(recent=recorded(from_peer(request(10), unknown)))
    assert row.state is ClientState.CONNECTED


def test_an_open_stream_counts_more_than_an_ended_process() -> None:
    """Another process went on with the session."""
    made = session("a", 10)
    made.peer, made.streaming = peer(NOW), True
    (row,) = rows(made)
    assert row.state is ClientState.CONNECTED


def test_a_verb_of_the_command_line_is_gone_once_it_was_answered() -> None:
    recent = RecentClients()
    recent.record(stateless(b"lmtb"), request())
    recent.record(stateless(b"lmtb-like"), request())
    assert {row.name: row.state for row in rows(recent=recent)} == {
        "lmtb": ClientState.GONE,
        "lmtb-like": ClientState.CONNECTED,
    }


def test_a_silent_session_with_an_open_stream_or_call_is_connected() -> None:
    streaming, calling = session("a", 9 * GONE_S), session("b", 9 * GONE_S)
    streaming.streaming = True
    calling.in_flight.add(b"1", lambda: None)
    found = rows(streaming, calling)
    assert [(row.state, row.streaming) for row in found] == [
        (ClientState.CONNECTED, True),
        (ClientState.CONNECTED, False),
    ]


def test_a_silent_stateless_client_with_an_open_listen_stream_is_connected_in_that_project() -> None:
    """Also when later calls have displaced the request that opened the stream."""
    listening = request(20 * GONE_S)
    listening.listening = True
    calls = [request(10 * GONE_S, "w-2") for _ in range(MAX_REQUESTS)]
    again = [request(9 * GONE_S), *(request(8 * GONE_S, "w-2") for _ in range(MAX_REQUESTS))]
    recent = recorded(listening, *calls, *again)
    assert {row.workspace: row.state for row in rows(recent=recent)} == {
        "w-1": ClientState.CONNECTED,
        "w-2": ClientState.GONE,
    }
    listening.listening = False
    assert {row.state for row in rows(recent=recent)} == {ClientState.GONE}


def test_sessions_that_are_gone_are_one_row_for_each_client_and_project() -> None:
    found = rows(
        session("a", 3 * GONE_S),
        session("b", 2 * GONE_S),
        session("c", 2 * GONE_S, workspace="w-2"),
        session("d", 2 * GONE_S, name="gemini"),
        session("e"),
        session("f"),
    )
    counts = [(row.name, row.workspace, row.state.value, row.sessions) for row in found]
    assert counts[:2] == [("codex", "w-1", "connected", 1)] * 2, "live sessions are live clients"
    assert sorted(counts[2:]) == [
        ("codex", "w-1", "gone", 2),
        ("codex", "w-2", "gone", 1),
        ("gemini", "w-1", "gone", 1),
    ]
    assert next(row for row in found if row.sessions == 2).last_call == NOW - 2 * GONE_S
    assert count_connected(found) == 2


def test_a_session_client_whose_session_was_ended_is_gone() -> None:
    recent = RecentClients()
    recent.record(Client(b'{"name":"codex","version":"1.0"}', "legacy", "2025-11-25"), request())
    (ended,) = rows(recent=recent)
    assert (ended.name, ended.state, ended.sessions) == ("codex", ClientState.GONE, 0)
    (living,) = rows(session("a"), recent=recent)
    assert (living.state, living.sessions) == (ClientState.CONNECTED, 1)


def test_a_stateless_client_is_listed_once_for_each_project() -> None:
    """Also the project whose requests are no longer among the last ones; the newest is first."""
    recent = recorded(request(700, "w-2"), *(request(10) for _ in range(MAX_REQUESTS)))
    recent.record(stateless(revision="2027-01-01"), request(5))
    shown = [(row.workspace, row.source, row.state.value, row.last_call) for row in rows(recent=recent)]
    assert shown == [("w-1", "query", "connected", NOW - 5), ("w-2", "query", "idle", NOW - 700)]


def test_the_projects_that_are_kept_of_a_client_are_bounded() -> None:
    recent = recorded(*(request(1000 - at, f"w-{at}") for at in range(200)))
    found = rows(recent=recent)
    assert len(found) == MAX_PROJECTS + MAX_REQUESTS
    assert found[0].workspace == "w-199"


def test_the_folder_that_was_sent_is_shown_where_no_project_is_known() -> None:
    nowhere = session("a", workspace=None)
    nowhere.sent_cwd = "/srv/nowhere"
    recent = recorded(request(1, None, Claims(query="/srv/elsewhere")))
    assert [row.folder for row in rows(nowhere, recent=recent)] == ["/srv/nowhere", "/srv/elsewhere"]
    assert rows(session("b"))[0].folder is None


def test_a_bound_or_implied_project_is_shown_until_a_request_decides() -> None:
    bound, implied = session("a", workspace=None), session("b", workspace=None)
    bound.workspace, implied.implied_workspace = "w-7", "w-8"
    assert {row.workspace for row in rows(bound, implied)} == {"w-7", "w-8"}


@pytest.mark.parametrize("info", [b"", b"[]", b'{"name":7}'])
def test_a_client_that_does_not_name_itself_is_listed(info: bytes) -> None:
    recent = RecentClients()
    recent.record(Client(info, "modern", "2026-07-28"), request())
    (row,) = rows(recent=recent)
    assert (row.name, row.version) == (None, None)
