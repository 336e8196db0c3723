"""Measures what clients that stop reading or sending cost the manager and a neighbour.

Each case is a row: the manager's memory before, at its peak and after; how many of the clients are still
connected at the end; the latency of a neighbour's small calls without and beside them. `measure` serves
other programs, too.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.names import LATEST_MODERN
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment import own_manager
from scripts.benchmarks.environment.own_manager import POST_HEADERS, Manager
from scripts.benchmarks.environment.processes import cores, rss_mb
from scripts.benchmarks.forwarding.large_answers import answers_with
from scripts.benchmarks.plan import ROOT, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

CLIENTS: Final = 100
ANSWER: Final = 5_000_000
BODY: Final = 16 * 1024 * 1024
WATCHED_S: Final = 45.0
"""Seconds for which the clients are watched; longer than the deadlines for clients that stop."""
LEFT_S: Final = 8.0
"""Seconds after the clients have left in which the manager returns memory; it looks every 5 s."""
CALLS: Final = 400
CASES: Final = ("stateless json", "session json", "stateless events", "session events", "bodies")


@dataclass(frozen=True)
class Row:
    """The figures of one case. Memory in MiB, times in ms."""

    case: str
    before: float
    peak: float
    after: float
    still_open: int
    p99_without: float
    p99_beside: float
    failed: int


class Neighbour:
    """A client with a session whose calls are small, one after the other."""

    def __init__(self, one: Manager, folder: Path) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=30)
        session = own_manager.bound_session(one, folder)
        self._fields = POST_HEADERS | {headers.VERSION: REVISION, headers.SESSION: session}
        self.failed = 0

    def call(self) -> float:
        """Send one call; return its seconds."""
        body = jsonrpc.request(b"7", names.TOOLS_CALL, {"name": "json", "arguments": {"size": 100}})
        began = time.perf_counter()
        try:
            self._connection.request("POST", names.MCP_PATH, body, self._fields)
            said = self._connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            said = b""
        if b"xxxx" not in said:
            self.failed += 1
            print(f"a neighbour's call failed: {said.decode()[:300]}", file=sys.stderr)
        return time.perf_counter() - began

    def p99_ms(self, calls: int = CALLS, until: float = 0.0) -> float:
        """The 99th percentile of so many calls, or of those until a monotonic time if that is later."""
        times: list[float] = []
        while len(times) < calls or time.monotonic() < until:
            times.append(self.call())
            time.sleep(0.002)
        return 1000 * sorted(times)[int(0.99 * len(times))]


class Memory:
    """Samples a process's resident memory until it is told to stop."""

    def __init__(self, pid: int) -> None:
        self.peak = self.before = rss_mb([pid])
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, rss_mb([self._pid]))

    def stop(self) -> float:
        """Stop sampling; return the memory now."""
        self._stop.set()
        self._thread.join()
        return rss_mb([self._pid])


@contextlib.contextmanager
def large_answers() -> Iterator[tuple[int, int]]:
    """Run the workspace server with large answers; yields its port and pid."""
    command = [sys.executable, "-m", "scripts.benchmarks.forwarding.large_answers"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline()), server.pid
        finally:
            server.kill()


def measure(
    folder: Path, cases: Sequence[str] = CASES, clients: int = CLIENTS, **settings: object
) -> list[Row]:
    """Measure each case on a manager of its own.

    Args:
        settings: of the manager.
    """
    return [_case(folder / str(number), case, clients, settings) for number, case in enumerate(cases)]


def _case(folder: Path, case: str, clients: int, settings: dict[str, object]) -> Row:
    project, on = own_manager.project(folder / "project"), cores().measured
    with (
        own_manager.manager(folder, on, fork_servers=False, **settings) as one,
        large_answers() as (port, pid),
        own_manager.registered(one, [project], port, pid),
    ):
        neighbour = Neighbour(one, project)
        without = neighbour.p99_ms()
        memory = Memory(one.pid)
        with contextlib.ExitStack() as held:
            until = time.monotonic() + WATCHED_S
            stopped = list(_stopped(one, project, case, clients, held))
            beside = neighbour.p99_ms(until=until)
            still_open = sum(map(_is_open, stopped))
        time.sleep(LEFT_S)
        after = memory.stop()
        return Row(case, memory.before, memory.peak, after, still_open, without, beside, neighbour.failed)


def _stopped(
    one: Manager, project: Path, case: str, clients: int, held: contextlib.ExitStack
) -> Iterator[socket.socket]:
    """Send the requests of so many clients, none of which goes on."""
    era, _, kind = case.rpartition(" ")
    path = f"{names.MCP_PATH}?cwd={project}"
    for number in range(clients):
        fields = dict(POST_HEADERS)
        params = answers_with(kind, ANSWER, is_stateless=era != "session")
        if era == "session":
            fields |= {headers.VERSION: REVISION, headers.SESSION: own_manager.bound_session(one, project)}
        else:
            fields |= {headers.VERSION: LATEST_MODERN, headers.METHOD: names.TOOLS_CALL, headers.NAME: kind}
        body = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (number, params)
        yield _sent(one.port, path, fields, body, None if kind != "bodies" else BODY, held)


def _sent(  # noqa: PLR0917  all of them are needed
    port: int, path: str, fields: dict[str, str], body: bytes, size: int | None, held: contextlib.ExitStack
) -> socket.socket:
    """Send a request; with `size`, only a body of so many bytes, without its last one."""
    client = held.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {size or len(body)}"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in fields.items())]) + "\r\n\r\n"
    client.sendall(head.encode())
    if size is None:
        client.sendall(body)
        return client
    thread = threading.Thread(target=_send_unfinished, args=(client, size), daemon=True)
    thread.start()
    return client


def _send_unfinished(client: socket.socket, size: int) -> None:
    piece = b" " * 65_536
    with contextlib.suppress(OSError):
        for _ in range(size // len(piece) - 1):
            client.sendall(piece)
        client.sendall(piece[1:])


def _is_open(client: socket.socket) -> bool:
    """Whether the manager has not closed a connection: its state is ESTABLISHED."""
    if sys.platform != "linux":
        return False
    return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1


def run(plan: Plan) -> Section:
    """Measure all cases."""
    rows = []
    for case in CASES:
        plan.say(f"stopped: {CLIENTS} × {case}")
        rows += measure(plan.folder / case.replace(" ", "-"), [case])
    return Section("stopped-readers", text(rows), {row.case: asdict(row) for row in rows}, is_single=True)


def text(rows: Sequence[Row]) -> str:
    """The table."""
    titles = ("case", "before MiB", "peak MiB", "after MiB", "open", "p99 ms", "beside ms", "failed")
    return table(titles, [tuple(asdict(row).values()) for row in rows])


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(prefix="lmtb-stopped-") as name:
        chosen = sys.argv[1:] or CASES
        for each in chosen:
            print(text(measure(Path(name) / each.replace(" ", "-"), [each])), flush=True)
