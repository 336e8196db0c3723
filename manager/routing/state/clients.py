"""Table of recent clients: each one's connections and last requests, and how each named its workspace. Pure.

`lmtb clients`, `lmtb whoami` and the status page show the table, so that a user can see why a client got the
tools it got. It lives in memory, with at most `MAX_CLIENTS` clients, `MAX_REQUESTS` requests of each, and the
last request in each of `MAX_PROJECTS` projects. `manager/admin/status.py` formats it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from lm_tools_bridge.protocol import headers
from manager.routing.resolution import Claims, WorkspaceSource

Address = tuple[str, int] | tuple[str, int, int, int]


class ClientProcess:
    """A process of a client on this machine.

    Attributes:
        pid, started: which process it is.
        ended_at: monotonic time when its end was noticed; None while it runs.
    """

    __slots__ = ("ended_at", "pid", "started")

    def __init__(self, pid: int, started: str) -> None:
        self.pid = pid
        self.started = started
        self.ended_at: float | None = None


class Peer:
    """The other end of one connection.

    Attributes:
        ends: our address and the client's.
        is_sought: whether its process was looked for, or is going to be.
        process: its process; None if it is not known, as for a client on another machine.
    """

    __slots__ = ("ends", "is_sought", "process")

    def __init__(self, ends: tuple[Address, Address]) -> None:
        self.ends = ends
        self.is_sought = False
        self.process: ClientProcess | None = None

    def has_ended_since(self, at: float) -> bool:
        """Whether its process was running at this time, and has ended."""
        process = self.process
        return process is not None and process.ended_at is not None and process.ended_at >= at


MAX_CLIENTS: Final = 64
"""Clients in the table. A user has a dozen programs, in a few versions; a client can send a new name with
each request."""
MAX_REQUESTS: Final = 5
"""Last requests of a client. They show how its workspace is found now, on one screen of `lmtb whoami`."""
MAX_PROJECTS: Final = 16
"""Projects of a client whose last request is kept: more than a user works in within an hour, after which
`lmtb clients` lists them no more."""
MAX_PEERS: Final = 32
"""Several processes of one client are common, and each may serve several projects."""


class Client(msgspec.Struct, frozen=True, gc=False):
    """A client program as it describes itself: one row of the table.

    `info` is its `clientInfo` as JSON text, empty if the client sent none. The text is decoded only for
    display.
    """

    info: bytes
    era: str
    revision: str


class RequestRecord(msgspec.Struct, gc=False):
    """One request of a client.

    Attributes:
        at: monotonic seconds.
        claims: what the request said about its workspace. The client's roots are added once it sent them.
        response_headers: headers of the response, which name the workspace and its source. They may be
            filled in after the request was recorded.
        listening: whether it opened a listen stream that is still open.
        peer: the connection that it came from; None if that is not noted.
    """

    at: float
    method: str
    claims: Claims
    response_headers: Mapping[str, str]
    listening: bool = False
    peer: Peer | None = None

    @property
    def source(self) -> str:
        """The source that decided the workspace, as `X-Workspace-Source` has it."""
        return self.response_headers.get(headers.WORKSPACE_SOURCE, WorkspaceSource.NONE.value)

    @property
    def workspace(self) -> str | None:
        """The id of the resolved workspace."""
        return self.response_headers.get(headers.WORKSPACE_ID)

    @property
    def overruled(self) -> str | None:
        """What pointed to another workspace and was weaker, for people."""
        return self._text(headers.WORKSPACE_OVERRULED)

    @property
    def contradiction(self) -> str | None:
        """Which two folders it could have meant, for people."""
        return self._text(headers.WORKSPACE_CONTRADICTION)

    def _text(self, header: str) -> str | None:
        value = self.response_headers.get(header)
        return None if value is None else headers.decode_value(value)


class _Requests:
    """The requests of one client.

    A request is kept by project only when it leaves `last`: its workspace is known by then.

    Attributes:
        last: the last requests.
        by_project: the last one that left `last`, for each workspace.
        listening: those that left `last` while their listen streams were open.
        peers: the last connections of requests that left `last`, each with the workspace of its request.
    """

    __slots__ = ("by_project", "last", "listening", "peers")

    def __init__(self) -> None:
        self.last: deque[RequestRecord] = deque()
        self.by_project: OrderedDict[str | None, RequestRecord] = OrderedDict()
        self.listening: list[RequestRecord] = []
        self.peers: OrderedDict[tuple[object, str | None], Peer] = OrderedDict()

    def add(self, request: RequestRecord) -> None:
        """Add a request; the oldest leaves the last ones."""
        self.last.append(request)
        if len(self.last) > MAX_REQUESTS:
            self._keep_by_project(self.last.popleft())

    def _keep_by_project(self, request: RequestRecord) -> None:
        self.by_project[request.workspace] = request
        self.by_project.move_to_end(request.workspace)
        if len(self.by_project) > MAX_PROJECTS:
            self.by_project.popitem(last=False)
        if request.peer is not None:
            self._keep_peer(request.peer, request.workspace)
        if request.listening:
            self.listening = [*(one for one in self.listening if one.listening), request]

    def _keep_peer(self, peer: Peer, workspace: str | None) -> None:
        """Keep one connection of each process and workspace."""
        key = (peer.process or peer, workspace)
        self.peers[key] = peer
        self.peers.move_to_end(key)
        if len(self.peers) > MAX_PEERS:
            self.peers.popitem(last=False)


class RecentClients:
    """The recent clients, each with its last requests, least recently seen first."""

    def __init__(self) -> None:
        self._requests: OrderedDict[Client, _Requests] = OrderedDict()

    def __iter__(self) -> Iterator[tuple[Client, tuple[RequestRecord, ...]]]:
        for client, requests in self._requests.items():
            yield client, tuple(requests.last)

    def clients(self) -> tuple[Client, ...]:
        """The clients alone."""
        return tuple(self._requests)

    def last_of_projects(self, client: Client) -> list[RequestRecord]:
        """The client's last request in each project."""
        requests = self._requests[client]
        found = dict(requests.by_project)
        found.update((one.workspace, one) for one in requests.last)
        return list(found.values())

    def is_listening(self, client: Client, workspace: str | None) -> bool:
        """Whether the client has an open listen stream in this project."""
        requests = self._requests[client]
        return any(
            one.listening and one.workspace == workspace for one in (*requests.last, *requests.listening)
        )

    def peers_of(self, client: Client, workspace: str | None) -> set[Peer]:
        """The connections of this client's last requests for a workspace; of all its processes, if few."""
        requests = self._requests[client]
        peers = {peer for (_, named), peer in requests.peers.items() if named == workspace}
        here = [one for one in requests.last if one.workspace == workspace]
        return peers | {one.peer for one in here if one.peer is not None}

    def record(self, client: Client, request: RequestRecord) -> None:
        """Add a request. A full table drops the client that was silent longest."""
        requests = self._requests.get(client)
        if requests is None:
            requests = self._requests[client] = _Requests()
            if len(self._requests) > MAX_CLIENTS:
                self._requests.popitem(last=False)
        self._requests.move_to_end(client)
        requests.add(request)
