"""Summarises who is connected: one row for each live client, one for all dead sessions of the same client.

Session clients come from the table of sessions, stateless clients from the table of recent clients.
`manager/admin/status.py` formats the rows, `lmtb clients` prints them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.names import Era
from manager.routing.state.clients import Client, Peer, RecentClients, RequestRecord
from manager.routing.state.session_table import Session

CONNECTED_S: Final = 5 * 60.0
"""Seconds after its last request for which a client counts as connected."""
GONE_S: Final = 15 * 60.0
"""Seconds of silence without an open stream after which a client counts as gone."""

PLAYED: Final = "+lmtb-doctor"
"""The end of the version in `clientInfo` of a client that `lmtb doctor` plays; it is not in the overview."""


class ClientState(Enum):
    """Whether a client is connected, silent for some minutes, or gone."""

    CONNECTED = "connected"
    IDLE = "idle"
    GONE = "gone"


class ClientRow(msgspec.Struct, frozen=True):
    """One client in one project.

    Attributes:
        workspace: id of the workspace of its last request; None if nothing decided one.
        folder: the folder that it sent, if no workspace is known.
        source: the kind of claim that decided the workspace.
        last_call: monotonic time of its last request.
        streaming: whether a stream for notifications is open.
        sessions: how many sessions the row stands for; 0 for a stateless client.
        pids: its running processes on this machine, as far as they are known.
    """

    name: str | None
    version: str | None
    era: str
    workspace: str | None
    folder: str | None
    source: str
    last_call: float
    state: ClientState
    streaming: bool = False
    sessions: int = 0
    pids: tuple[int, ...] = ()


def client_rows(sessions: Iterable[Session], recent: RecentClients, now: float) -> list[ClientRow]:
    """The clients of both eras, most recently seen first, at monotonic time `now`."""
    of_sessions = _joined([_session_row(one, now) for one in sessions if not _is_played(one.client_version)])
    known = {(row.name, row.version) for row in of_sessions}
    others: dict[object, ClientRow] = {}
    for row in (row for client in recent.clients() for row in _recent_rows(client, recent, now)):
        if row.era == Era.MODERN.value or (row.name, row.version) not in known:
            key = (row.era, *_identity(row))  # it may have used several revisions
            others[key] = _joined_row(others[key], row) if key in others else row
    return sorted([*of_sessions, *others.values()], key=lambda row: row.last_call, reverse=True)


def count_connected(rows: Iterable[ClientRow]) -> int:
    """How many clients are connected."""
    return sum(row.state is ClientState.CONNECTED for row in rows)


def _state(last_call: float, now: float, *, is_open: bool, has_ended: bool) -> ClientState:
    silent = now - last_call
    if is_open:
        return ClientState.CONNECTED
    if has_ended:
        return ClientState.GONE
    if silent <= CONNECTED_S:
        return ClientState.CONNECTED
    return ClientState.IDLE if silent <= GONE_S else ClientState.GONE


def _have_ended(peers: Collection[Peer], at: float) -> bool:
    """Whether all these processes have ended since this time; False while one of them is not known."""
    return bool(peers) and all(peer.has_ended_since(at) for peer in peers)


def _running(peers: Iterable[Peer]) -> tuple[int, ...]:
    processes = {peer.process for peer in peers if peer.process is not None}
    return tuple(sorted(process.pid for process in processes if process.ended_at is None))


def _session_row(session: Session, now: float) -> ClientRow:
    workspace = session.last_workspace or session.workspace or session.implied_workspace
    peers = set() if session.peer is None else {session.peer}
    return ClientRow(
        name=session.client_name,
        version=session.client_version,
        era=Era.LEGACY.value,
        workspace=workspace,
        folder=(session.sent_cwd or session.cwd) if workspace is None else None,
        source=session.source,
        last_call=session.seen,
        state=_state(
            session.seen,
            now,
            is_open=session.streaming or len(session.in_flight) > 0,
            has_ended=_have_ended(peers, session.seen),
        ),
        streaming=session.streaming,
        sessions=1,
        pids=_running(peers),
    )


def _joined(rows: list[ClientRow]) -> list[ClientRow]:
    """Live sessions one by one, and those of the same client and project that are gone as one row."""
    live = [row for row in rows if row.state is not ClientState.GONE]
    gone: dict[object, ClientRow] = {}
    for row in rows:
        if row.state is ClientState.GONE:
            key = _identity(row)
            gone[key] = _joined_row(gone[key], row) if key in gone else row
    return live + list(gone.values())


def _identity(row: ClientRow) -> tuple[str | None, ...]:
    return row.name, row.version, row.workspace, row.folder


def _joined_row(one: ClientRow, other: ClientRow) -> ClientRow:
    latest = max(one, other, key=lambda row: row.last_call)
    state = min(one.state, other.state, key=list(ClientState).index)
    streaming, sessions = one.streaming or other.streaming, one.sessions + other.sessions
    pids = tuple(sorted({*one.pids, *other.pids}))
    return msgspec.structs.replace(latest, state=state, streaming=streaming, sessions=sessions, pids=pids)


def _recent_rows(client: Client, recent: RecentClients, now: float) -> Iterator[ClientRow]:
    """A client's rows, one for each project. Ended sessions are gone, and verbs of `lmtb` leave at once."""
    name, version = name_and_version(client)
    if _is_played(version):
        return
    for last in recent.last_of_projects(client):
        is_open = recent.is_listening(client, last.workspace)
        peers = recent.peers_of(client, last.workspace)
        has_ended = _have_ended(peers, last.at)
        stays = client.era == Era.MODERN.value and name != names.COMMAND_LINE
        yield ClientRow(
            name=name,
            version=version,
            era=client.era,
            workspace=last.workspace,
            folder=None if last.workspace else _folder(last),
            source=last.source,
            last_call=last.at,
            state=_state(last.at, now, is_open=is_open, has_ended=has_ended) if stays else ClientState.GONE,
            streaming=is_open,
            pids=_running(peers),
        )


def _is_played(version: str | None) -> bool:
    return version is not None and version.endswith(PLAYED)


def name_and_version(client: Client) -> tuple[str | None, str | None]:
    """What the client calls itself."""
    info = jsonrpc.members_of(client.info)
    name, version = (jsonrpc.text_of(info[one]) if one in info else None for one in ("name", "version"))
    return name, version


def _folder(request: RequestRecord) -> str | None:
    sent = request.claims.shown_texts()
    return next((text for name, text in sent.items() if name != "path"), None)
