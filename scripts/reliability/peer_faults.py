"""Does the same harm to other MCP proxies and to the manager, in turns, and compares what their clients see.

Behind each is the stdio server of the benchmarks. Each fault gets a proxy of its own, started anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from lm_tools_bridge.protocol import headers, jsonrpc, names
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment import nginx, own_manager
from scripts.benchmarks.environment.processes import cores, descendants, running, wait_for
from scripts.benchmarks.other_proxies.installing import NotInstallable, installed, version
from scripts.benchmarks.other_proxies.peer import PEERS, SERVER, TOOL, Peer
from scripts.benchmarks.results.table import table

ROUNDS: Final = 3
WAIT_S: Final = 10.0
"""So long an answer, or the end of a process, is waited for."""
SESSIONS: Final = 20
OURS: Final = "LM Tools Bridge"
CHOSEN: Final = ("mcp-proxy (PyPI)", "supergateway, stateful")
"""The proxies that can be called over MCP in sessions, and keep a stdio server."""


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs: its process, its address, and how to open a session that reaches the server."""

    pid: int
    address: str
    tool: str
    open_session: Callable[[], str]

    def servers(self) -> list[psutil.Process]:
        """The stdio servers that it started."""
        return [one for one in descendants(self.pid) if _is_server(one)]

    def call(self, session: str) -> bool:
        """Whether a call is answered with a result within the waiting time."""
        params = {"name": self.tool, "arguments": {"text": "x"}}
        fields = {headers.VERSION: REVISION} | ({headers.SESSION: session} if session else {})
        try:
            said, _ = own_manager.post(
                self.address, jsonrpc.request(b"7", names.TOOLS_CALL, params), fields, WAIT_S
            )
        except OSError:
            return False
        return b"x" * 200 in said


Start = Callable[[Path], contextlib.AbstractContextManager[Proxy]]
Fault = Callable[[Proxy], float | None]
"""Does the harm, and returns a figure; None for "never", or for "not at all"."""


def run(folder: Path, say: Callable[[str], None]) -> str:
    """Try all faults on all proxies that can be installed; returns a table."""
    starts, absent = _starts()
    found: dict[str, dict[str, list[float | None]]] = {what: {name: [] for name in starts} for what in FAULTS}
    for number in range(ROUNDS):
        for what, fault in FAULTS.items():
            for name, start in starts.items():
                say(f"{number + 1} of {ROUNDS}: {what}: {name}")
                place = folder / f"{number}-{len(os.listdir(folder))}"  # noqa: PTH208  only their number
                place.mkdir()
                with start(place) as proxy:
                    found[what][name].append(fault(proxy))
    rows = [(what, *(_shown(values) for values in each.values())) for what, each in found.items()]
    missing = "".join(f"\n\nNot tried: {name} ({reason})." for name, reason in absent.items())
    return table(("what, medians of three", *starts), rows) + missing


def recovers_from_a_killed_server(proxy: Proxy) -> float | None:
    """Seconds until a session of before is answered again after its stdio server was killed."""
    session = proxy.open_session()
    for server in proxy.servers():
        server.kill()
    begun = time.monotonic()
    while time.monotonic() - begun < WAIT_S:
        if proxy.call(session):
            return time.monotonic() - begun
        time.sleep(0.1)
    return None


def tells_of_a_server_killed_in_a_call(proxy: Proxy) -> float | None:
    """Seconds from the death of the stdio server until its caller has an answer, whatever it says."""
    session = proxy.open_session()
    servers = proxy.servers()
    for server in servers:
        server.suspend()
    begun = time.monotonic()
    killer = os.fork()
    if not killer:
        time.sleep(1)
        for server in servers:
            with contextlib.suppress(psutil.Error):
                server.kill()
        os._exit(0)
    proxy.call(session)
    took = time.monotonic() - begun
    os.waitpid(killer, 0)
    return took - 1 if took < WAIT_S else None


def servers_left_by_a_crash(proxy: Proxy) -> float | None:
    """How many stdio servers run three seconds after the proxy was killed."""
    proxy.open_session()
    servers = proxy.servers()
    os.kill(proxy.pid, signal.SIGKILL)
    return float(len(psutil.wait_procs(servers, timeout=3)[1]))


def seconds_to_stop(proxy: Proxy) -> float | None:
    """Seconds from SIGTERM until proxy and stdio servers ended."""
    proxy.open_session()
    ending = [psutil.Process(proxy.pid), *proxy.servers()]
    begun = time.monotonic()
    os.kill(proxy.pid, signal.SIGTERM)
    _, left = psutil.wait_procs(ending, timeout=WAIT_S)
    return None if left else time.monotonic() - begun


def servers_of_many_sessions(proxy: Proxy) -> float | None:
    """How many stdio servers run for twenty sessions."""
    for _ in range(SESSIONS):
        proxy.call(proxy.open_session())
    return float(len(proxy.servers()))


def memory_of_many_sessions(proxy: Proxy) -> float | None:
    """Megabytes of proxy and stdio servers with twenty sessions."""
    servers_of_many_sessions(proxy)
    tree = [psutil.Process(proxy.pid), *descendants(proxy.pid)]
    return sum(one.memory_full_info().pss for one in tree) / 1e6


FAULTS: Final[Mapping[str, Fault]] = {
    "stdio server killed: seconds until the same session is served": recovers_from_a_killed_server,
    "stdio server killed in a call: seconds until its caller is told": tells_of_a_server_killed_in_a_call,
    "proxy killed: stdio servers left": servers_left_by_a_crash,
    "proxy gets SIGTERM: seconds until all ended": seconds_to_stop,
    f"{SESSIONS} sessions: stdio servers": servers_of_many_sessions,
    f"{SESSIONS} sessions: MB": memory_of_many_sessions,
}


def _starts() -> tuple[dict[str, Start], dict[str, str]]:
    starts: dict[str, Start] = {OURS: _ours}
    absent: dict[str, str] = {}
    for peer in PEERS:
        if peer.name not in CHOSEN:
            continue
        try:
            at = installed(peer)
        except (NotInstallable, OSError) as gone:
            absent[peer.name] = str(gone)
            continue
        starts[f"{peer.name} {version(peer, at)}"] = partial(_theirs, peer, at)
    return starts, absent


@contextlib.contextmanager
def _ours(folder: Path) -> Iterator[Proxy]:
    project = own_manager.project(folder / "project")
    (folder / "config").mkdir()
    entry = f'[[mcp.stdio_servers]]\nnamespace = "bench"\ncommand = {json.dumps(SERVER)}\n'
    (folder / "config" / "workspace.toml").write_text(entry)
    with own_manager.manager(folder, cores().measured) as one:
        proxy = Proxy(
            one.pid, one.address(), f"bench__{TOOL}", lambda: own_manager.bound_session(one, project)
        )
        yield _ready(proxy)


@contextlib.contextmanager
def _theirs(peer: Peer, at: Path, folder: Path) -> Iterator[Proxy]:
    port = nginx.free_port()
    command = peer.command(at, port)
    with running(*command, on=cores().measured, log=folder / "log", cwd=folder) as one:
        wait_for(lambda: nginx.reachable(port), what=peer.name)
        address = f"http://127.0.0.1:{port}{peer.path}"
        yield _ready(Proxy(one.pid, address, TOOL, lambda: own_manager.opened_session(address)))


def _ready(proxy: Proxy) -> Proxy:
    """The proxy, once it has answered a call."""
    wait_for(lambda: proxy.call(proxy.open_session()), OSError, what="a first answer")
    return proxy


def _is_server(process: psutil.Process) -> bool:
    try:
        return SERVER[-1] in process.cmdline()
    except psutil.Error:
        return False


def _shown(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) * 2 <= len(values):
        return f"never within {WAIT_S:g} s"
    return f"{median(known):.1f}".removesuffix(".0")
