"""Opens thousands of sessions, connections and server streams of a manager."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from lm_tools_bridge.protocol import headers, jsonrpc, names
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment.own_manager import CLIENT, POST_HEADERS
from scripts.benchmarks.environment.processes import READY_S

THREADS = 8
MANY = 100_000
"""The limit of connections and sessions that the manager is configured with."""
SPARE_FILES = 200


def allow_files() -> int:
    """Raise the limit of open files as far as possible and return it, less a reserve; children inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most - SPARE_FILES


def sessions(port: int, number: int) -> list[str]:
    """Open new sessions, over connections that are closed again; return their ids."""
    shares = [len(range(start, number, THREADS)) for start in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        return [one for some in pool.map(lambda share: _sessions(port, share), shares) for one in some]


def _sessions(port: int, number: int) -> list[str]:
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT}
    body = jsonrpc.request(b"1", names.INITIALIZE, params)
    made = []
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)) as connection:
        for _ in range(number):
            connection.request("POST", names.MCP_PATH, body, POST_HEADERS)
            answer = connection.getresponse()
            answer.read()
            made.append(answer.headers[headers.SESSION])
    return made


@contextlib.contextmanager
def connections(port: int, number: int) -> Iterator[list[socket.socket]]:
    """Open connections, each of which has carried one request."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=READY_S))
            one.sendall(head(port, "DELETE"))  # without a session id, so that it is refused
            opened.append(one)
        for one in opened:
            one.recv(65536)
        yield opened


def open_streams(port: int, opened: Sequence[socket.socket], ids: Sequence[str]) -> None:
    """Open the server stream of a session on each connection."""
    for one, session in zip(opened, ids, strict=True):
        one.sendall(head(port, "GET", "Accept: text/event-stream", f"{headers.SESSION}: {session}"))
    for one in opened:
        if b" 200 " not in one.recv(4096):
            raise RuntimeError("a server stream was not opened")


def head(port: int, method: str, *fields: str) -> bytes:
    """The head of a request without a body."""
    lines = [f"{method} {names.MCP_PATH} HTTP/1.1", f"Host: 127.0.0.1:{port}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()
