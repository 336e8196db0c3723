"""Measures cold starts of workspace servers: time from handshake to a tool's answer, and added memory.

Usage: python -m scripts.benchmarks.startup.cold [number of workspaces, 30 by default]
One manager forks its servers, another one starts new processes; each starts half of the servers, in turns.
The time is that of a stateless handshake, which starts the server, and a call of `calculator`, on one
connection. Memory is the proportional set size (PSS) of manager, fork server and workspace servers together,
of which the growth per server is printed. Linux only.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.names import MODERN_REVISIONS
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths

ROOT: Final = Path(__file__).resolve().parents[3]
READY_S: Final = 30.0
META: Final = {names.META_VERSION: MODERN_REVISIONS[0], names.META_CAPABILITIES: {}}


@dataclass
class Manager:
    """A running manager, the times of its cold starts (ms) and its recorded memory (KiB)."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int
    times: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def cold_start(self) -> None:
        """Create a project, start its server, and record the milliseconds to the first answer of a tool."""
        project = self.folder / f"project-{len(self.times)}"
        (project / ".git").mkdir(parents=True)
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.connect()
        began = time.perf_counter()
        call(connection, "/mcp", names.HANDSHAKE, {"cwd": str(project)})
        answer = call(connection, f"/mcp?cwd={quote(str(project))}", "calculator", {"expression": "6 * 7"})
        self.times.append(1000 * (time.perf_counter() - began))
        assert answer["result"]["structuredContent"] == {"value": 42}, answer
        connection.close()

    def record_memory(self) -> None:
        """Record the memory (PSS) of manager, fork server and workspace servers together, in KiB."""
        self.memory.append(sum(pss(pid) for pid in processes_of(str(self.folder))))


def call(
    connection: http.client.HTTPConnection, target: str, tool: str, arguments: dict[str, str]
) -> dict[str, Any]:
    """Make a stateless call and return the answer."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": names.TOOLS_CALL, "params": params})
    fields = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        headers.VERSION: MODERN_REVISIONS[0],
        headers.METHOD: names.TOOLS_CALL,
        headers.NAME: tool,
    }
    connection.request("POST", target, body, fields)
    response = connection.getresponse()
    text = response.read()
    assert response.status == 200, text
    answer: dict[str, Any] = json.loads(text.rpartition(b"data:")[2] if text.startswith(b"event") else text)
    return answer


def processes_of(home: str) -> list[int]:
    """The pids of all processes whose environment has this HOME."""
    mark, found = f"HOME={home}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def pss(pid: int) -> int:
    """The proportional set size of a process, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


@contextmanager
def manager(folder: Path, *, forks: bool) -> Iterator[Manager]:
    """Run a manager until the block ends; with `forks`, wait until its fork server is ready."""
    folder.mkdir()
    places = {f"LMTB_{one}_DIR": str(folder / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **places, "LMTB_FORK_SERVERS": str(forks)}
    log = folder / "manager.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "manager", "serve", "--http-port", "0"],
            env=environ,
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )
    try:
        control = Control(Paths.of_user(environ).control_socket)
        port = int(wait_for(lambda: address(control), log).removesuffix("/mcp").rpartition(":")[2])
        wait_for(lambda: not forks or "fork_server.ready" in log.read_text(), log)
        yield Manager(process, folder, port)
    finally:
        process.terminate()
        process.wait()


def address(control: Control) -> str:
    """The address of the endpoint; empty until the manager answers."""
    try:
        return str(control.get("/status")["address"])
    except (NoManager, ManagerFault):
        return ""


def wait_for(look: Callable[[], Any], log: Path) -> Any:
    """Poll `look` until it returns a true value, and return that."""
    deadline = time.monotonic() + READY_S
    while not (found := look()):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
    return found


def main() -> None:
    """Measure and print the results."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with (
        tempfile.TemporaryDirectory() as folder,
        manager(Path(folder, "forks"), forks=True) as forking,
        manager(Path(folder, "starts"), forks=False) as starting,
    ):
        both = {"forked": forking, "new process": starting}
        for _ in range(number // 2):
            for one in both.values():
                one.cold_start()
                time.sleep(1.5)  # a server opens its internal channel a second later
                one.record_memory()
        for kind, one in both.items():
            p95 = statistics.quantiles(one.times, n=20)[-1]
            added = statistics.median(b - a for a, b in pairwise(one.memory)) / 1024
            print(
                f"{kind:>12}: first answer p50 {statistics.median(one.times):.1f} ms, p95 {p95:.1f} ms;"
                f" each further workspace {added:.1f} MiB"
            )


if __name__ == "__main__":
    main()
