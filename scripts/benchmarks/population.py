"""Many sessions, many connections, many streams: made quickly, kept as long as the block lasts."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from protocol import headers, jsonrpc, names
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.chain import ASKING, CLIENT
from scripts.benchmarks.processes import READY_S

AT_ONCE = 8
MANY = 100_000
"""What the manager is told to allow of each."""
SPARE_FILES = 200


def allow_files() -> int:
    """Have as many open files as the system lets us, and say how many; children inherit that."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most - SPARE_FILES


def sessions(port: int, number: int) -> list[str]:
    """So many new sessions, over connections that are closed again."""
    shares = [len(range(start, number, AT_ONCE)) for start in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [one for some in pool.map(lambda share: _sessions(port, share), shares) for one in some]


def _sessions(port: int, number: int) -> list[str]:
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT}
    body = jsonrpc.request(b"1", names.INITIALIZE, params)
    made = []
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S)) as connection:
        for _ in range(number):
            connection.request("POST", names.MCP_PATH, body, ASKING)
            answer = connection.getresponse()
            answer.read()
            made.append(answer.headers[headers.SESSION])
    return made


@contextlib.contextmanager
def connections(port: int, number: int) -> Iterator[list[socket.socket]]:
    """So many connections, each used once."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=READY_S))
            one.sendall(head(port, "DELETE"))  # names no session, and is told so
            opened.append(one)
        for one in opened:
            one.recv(65536)
        yield opened


def open_streams(port: int, opened: Sequence[socket.socket], ids: Sequence[str]) -> None:
    """Make each connection the standing stream of a session."""
    for one, session in zip(opened, ids, strict=True):
        one.sendall(head(port, "GET", "Accept: text/event-stream", f"{headers.SESSION}: {session}"))
    for one in opened:
        if b" 200 " not in one.recv(4096):
            raise RuntimeError("a standing stream was not opened")


def head(port: int, method: str, *fields: str) -> bytes:
    """The head of a request."""
    lines = [f"{method} {names.MCP_PATH} HTTP/1.1", f"Host: 127.0.0.1:{port}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()
