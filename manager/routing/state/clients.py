"""Who asked lately, and how each request said which workspace it is for.

For people who wonder why a client got the tools it got. A table in memory, bounded in both directions; what
the numbers mean is shown by `admin/status.py`.
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
    """A program that asks, as it names itself: one row of the table.

    `info` is its `clientInfo` as JSON text, empty where it told none; it is read only when it is shown.
    """

    info: bytes
    era: str
    revision: str


class RequestRecord(msgspec.Struct, gc=False):
    """One request of a client.

    `at` is monotonic. `claims` become more where the client is asked for its roots. `response_headers` are the
    headers of its answer, which name rung and workspace; they may be filled in after this was noted.
    """

    at: float
    method: str
    claims: Claims
    response_headers: Mapping[str, str]

    @property
    def source(self) -> str:
        """The rung that decided."""
        return self.response_headers.get(headers.WORKSPACE_SOURCE, WorkspaceSource.NONE.value)

    @property
    def workspace(self) -> str | None:
        """The id of the workspace it decided for."""
        return self.response_headers.get(headers.WORKSPACE_ID)


class RecentClients:
    """The clients of late, each with its last requests, the client seen last at the end."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Client, deque[RequestRecord]] = OrderedDict()

    def __iter__(self) -> Iterator[tuple[Client, tuple[RequestRecord, ...]]]:
        for client, requests in self._seen.items():
            yield client, tuple(requests)

    def record(self, client: Client, seen: RequestRecord) -> None:
        """Enter a request; the client that was silent longest makes room."""
        requests = self._seen.get(client)
        if requests is None:
            requests = self._seen[client] = deque(maxlen=MAX_REQUESTS)
            if len(self._seen) > MAX_CLIENTS:
                self._seen.popitem(last=False)
        self._seen.move_to_end(client)
        requests.append(seen)
