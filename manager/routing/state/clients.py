"""Table of recent clients: each client's last requests and how each request named its workspace.

`lmtb whoami` and the status page show the table, so that a user can see why a client got the tools it got.
The table lives in memory, with at most `MAX_CLIENTS` clients and `MAX_REQUESTS` requests of each.
`admin/status.py` formats it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from manager.routing.workspace.resolution import Claims, WorkspaceSource
from protocol import headers

MAX_CLIENTS: Final = 64
MAX_REQUESTS: Final = 5


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
    """

    at: float
    method: str
    claims: Claims
    response_headers: Mapping[str, str]

    @property
    def source(self) -> str:
        """The source that decided the workspace, as `X-Workspace-Source` has it."""
        return self.response_headers.get(headers.WORKSPACE_SOURCE, WorkspaceSource.NONE.value)

    @property
    def workspace(self) -> str | None:
        """The id of the resolved workspace."""
        return self.response_headers.get(headers.WORKSPACE_ID)


class RecentClients:
    """The recent clients, each with its last requests, least recently seen first."""

    def __init__(self) -> None:
        self._requests: OrderedDict[Client, deque[RequestRecord]] = OrderedDict()

    def __iter__(self) -> Iterator[tuple[Client, tuple[RequestRecord, ...]]]:
        for client, requests in self._requests.items():
            yield client, tuple(requests)

    def record(self, client: Client, request: RequestRecord) -> None:
        """Add a request. A full table drops the client that was silent longest."""
        requests = self._requests.get(client)
        if requests is None:
            requests = self._requests[client] = deque(maxlen=MAX_REQUESTS)
            if len(self._requests) > MAX_CLIENTS:
                self._requests.popitem(last=False)
        self._requests.move_to_end(client)
        requests.append(request)
