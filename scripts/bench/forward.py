#!/usr/bin/env python3
"""What one forwarded call costs: processor time of the manager beside that of nginx, which does the same.

Usage: .venv/bin/python scripts/bench/forward.py [--seconds S] [--rounds N] [--only WORD,…]
Linux with nginx and wrk. The workspace server is an nginx that answers from files, so that it is not what is
measured; it registers with the manager as any server that somebody else started. Manager and the measured
nginx have the first processor, load and workspace server the second. Trust ratios within a table only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from manager.client import Control, ManagerFault, NoManager
from manager.paths import Paths
from protocol import headers, jsonrpc, names
from protocol.inbound import modern_meta

REVISION = "2025-11-25"
MODERN = "2026-07-28"
SIZES = {"200": 200, "10k": 10_000, "1m": 1_000_000}
NONCE = "bench"
READY_S = 20.0
T = TypeVar("T")
MEASURED, DRIVER = {0}, {1}

NGINX = """
daemon off; master_process off; worker_processes 1; user {user}; pid {folder}/{name}.pid;
error_log {folder}/{name}.log crit;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 0; client_body_buffer_size 2m; keepalive_requests 100000000;
  client_body_temp_path {folder}/{name}-body; proxy_temp_path {folder}/{name}-proxy;
  types {{ application/json json; text/event-stream sse; }}
  {http}
}}
"""
BACKEND = """
  keepalive_timeout 600;
  map $http_mcp_name $answer {{ default 200.json; {answers} }}
  server {{
    listen 127.0.0.1:{port};
    location = /mcp/health {{ default_type application/json; return 200 '{health}'; }}
    location = /mcp {{ error_page 405 =200 /$answer; return 405; }}
    location / {{ root {folder}/answers; error_page 405 =200 $uri; }}
  }}
"""
PROXY = """
  upstream backend {{ server 127.0.0.1:{backend}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering {buffering}; proxy_request_buffering {buffering}; proxy_buffers 8 32k;
    }}
  }}
"""


@dataclass(frozen=True)
class Case:
    """One row: how a call comes, how large it and its answer are, over how many connections."""

    era: str
    form: str
    size: str
    connections: int

    @property
    def label(self) -> str:
        """Its name in the table."""
        return f"{self.era} {self.form} {self.size} c={self.connections}"

    @property
    def tool(self) -> str:
        """The tool whose answer it is."""
        return f"{self.size}.{self.form}"


CASES = [
    *(Case(era, "json", "200", number) for era in ("modern", "legacy") for number in (1, 16, 128)),
    *(Case(era, form, "10k", 16) for era in ("modern", "legacy") for form in ("json", "sse")),
    *(Case(era, "sse", "200", 16) for era in ("modern", "legacy")),
    *(Case(era, form, "1m", 4) for era in ("modern", "legacy") for form in ("json", "sse")),
]


@dataclass(frozen=True)
class Measured:
    """What one round told: µs of processor time a call, calls a second, latencies in µs, refused ones."""

    cpu: float
    rate: float
    p50: float
    p99: float
    refused: int


@dataclass(frozen=True)
class Target:
    """Somebody to be measured: where it is reached in each era, and the process it is."""

    name: str
    urls: Mapping[str, str]
    pid: int
    fields: Mapping[str, Mapping[str, str]]


# --- what is sent


ID = b"1000000"
"""Stands where the load counts: in a session, no two calls may have one id at the same time."""


def call(case: Case) -> bytes:
    """The body of a call."""
    params = {"name": case.tool, "arguments": {"text": "x" * SIZES[case.size]}}
    if case.era == "modern":
        params["_meta"] = modern_meta(jsonrpc.raw({}), jsonrpc.raw({"name": "bench", "version": "1"}))
    return jsonrpc.request(ID, names.TOOLS_CALL, params)


def answers(folder: Path) -> None:
    """The files the workspace server answers from."""
    folder.mkdir()
    for name, size in SIZES.items():
        value = {"resultType": "complete", "content": [{"type": "text", "text": "x" * size}]}
        message = jsonrpc.result(b"3", value)
        (folder / f"{name}.json").write_bytes(message)
        (folder / f"{name}.sse").write_bytes(b"event: message\ndata: " + message + b"\n\n")


def script(case: Case, target: Target) -> str:
    """The load as wrk wants it."""
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    fields |= {headers.METHOD: names.TOOLS_CALL, headers.NAME: case.tool}
    fields |= {headers.VERSION: MODERN if case.era == "modern" else REVISION} | dict(target.fields[case.era])
    lines = [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in fields.items()]
    before, _, behind = call(case).decode().partition(ID.decode())
    body = f"local before, behind, id = [==[{before}]==], [==[{behind}]==], {ID.decode()}"
    return "\n".join([body, *lines, COUNTING])


COUNTING = """
request = function()
  id = id + 1
  return wrk.format("POST", nil, nil, before .. id .. behind)
end
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %f %f %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end"""


# --- who plays


@contextlib.contextmanager
def process(*command: str, cores: set[int], log: Path, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process with these processors, for as long as the block lasts."""
    with log.open("wb") as out:
        one = subprocess.Popen(  # type: ignore[call-overload]  # passed through as it is
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **more
        )
    os.sched_setaffinity(one.pid, cores)
    try:
        yield one
    finally:
        one.terminate()
        one.wait()


@contextlib.contextmanager
def nginx(folder: Path, name: str, http: str, cores: set[int]) -> Iterator[subprocess.Popen[bytes]]:
    """An nginx with this configuration."""
    user = os.environ.get("USER") or "root"
    config = folder / f"{name}.conf"
    config.write_text(NGINX.format(folder=folder, name=name, http=http, user=user))
    with process("nginx", "-p", str(folder), "-c", str(config), cores=cores, log=folder / name) as one:
        yield one


@contextlib.contextmanager
def manager(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Control]]:
    """A manager on folders and a port of its own."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LMTB_HTTP_PORT": "0"}
    environ |= {f"LMTB_{one}_DIR": str(folder / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")}
    control = Control(Paths.of_user(environ).control_socket)
    command = (sys.executable, "-I", "-m", "manager", "serve")
    with process(*command, cores=MEASURED, log=folder / "manager.log", cwd=folder, env=environ) as one:
        patiently(lambda: control.get("/status"))
        yield one, control


def patiently(ask: Callable[[], T | None]) -> T:
    """What `ask` gives as soon as it gives something."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        with contextlib.suppress(NoManager, ManagerFault, OSError):
            if found := ask():
                return found
        time.sleep(0.02)
    raise TimeoutError(ask)


@contextlib.contextmanager
def registered(control: Control, project: Path, port: int, pid: int) -> Iterator[None]:
    """Keep the workspace server known to the manager."""
    stop = threading.Event()
    beat = {
        "sessionId": "bench", "pid": pid, "workspaceFolders": [str(project)], "host": "127.0.0.1",
        "port": port, "nonce": NONCE, "kind": "workspace-server",
    }  # fmt: skip

    def renew() -> None:
        while not stop.wait(1.0):
            control.post("/heartbeat", beat)

    control.post("/heartbeat", beat)
    patiently(lambda: control.get("/list")["instances"][0]["state"] == "ready")
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def free_port() -> int:
    """A port that was free just now."""
    import socket  # noqa: PLC0415  only here

    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def bound_session(address: str, project: Path) -> str:
    """A session of the legacy era that chose the workspace."""

    def ask(identity: str | None, method: str, **params: object) -> Mapping[str, str]:
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        fields |= {} if identity is None else {headers.SESSION: identity}
        request = urllib.request.Request(address, jsonrpc.request(b"1", method, params), fields)
        with urllib.request.urlopen(request, timeout=READY_S) as response:
            response.read()
            return dict(response.headers)

    client = {"name": "bench", "version": "1"}
    said = ask(None, names.INITIALIZE, protocolVersion=REVISION, capabilities={}, clientInfo=client)
    session = said[headers.SESSION]
    ask(session, names.TOOLS_CALL, name=names.HANDSHAKE, arguments={"cwd": str(project)})
    return session


# --- measuring


def cpu_ns(pid: int) -> int:
    """The processor time a process has used."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def measure(case: Case, target: Target, folder: Path, seconds: float) -> Measured:
    """One round."""
    load = folder / "load.lua"
    load.write_text(script(case, target))
    command = ["wrk", "-t1", f"-c{case.connections}", f"-d{seconds}s", "-s", str(load), target.urls[case.era]]
    before = cpu_ns(target.pid)
    with process(*command, cores=DRIVER, log=folder / "load.out") as wrk:
        wrk.wait()
    used = cpu_ns(target.pid) - before
    found = re.search(r"RESULT (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+)", (folder / "load.out").read_text())
    if found is None:
        raise RuntimeError((folder / "load.out").read_text())
    calls, duration, p50, p99, refused = (float(one) for one in found.groups())
    return Measured(used / 1000 / max(1, calls), calls / duration * 1e6, p50, p99, int(refused))


def rss_mb(pid: int) -> float:
    """The memory a process has now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def table(rows: Mapping[Case, Mapping[str, list[Measured]]]) -> Iterator[str]:
    """The medians, and the manager's in relation to nginx's."""
    columns = (
        "µs nginx",
        "µs",
        "ratio",
        "calls/s nginx",
        "calls/s",
        "ratio",
        "p50 ratio",
        "p99 ratio",
        "refused",
    )
    yield f"| case | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for case, found in rows.items():
        nginx_cpu, nginx_rate, nginx_p50, nginx_p99 = medians(found["nginx"])
        cpu, rate, p50, p99 = medians(found["manager"])
        refused = sum(each.refused for each in found["manager"] + found["nginx"])
        cells = (
            f"{nginx_cpu:.1f}", f"{cpu:.1f}", f"{cpu / nginx_cpu:.2f}",
            f"{nginx_rate:,.0f}", f"{rate:,.0f}", f"{rate / nginx_rate:.2f}",
            f"{p50 / nginx_p50:.2f}", f"{p99 / nginx_p99:.2f}", str(refused),
        )  # fmt: skip
        yield f"| {case.label} | {' | '.join(cells)} |"


def medians(rounds: list[Measured]) -> tuple[float, float, float, float]:
    """Of processor time, rate, and both latencies."""
    return (
        statistics.median(one.cpu for one in rounds),
        statistics.median(one.rate for one in rounds),
        statistics.median(one.p50 for one in rounds),
        statistics.median(one.p99 for one in rounds),
    )


@contextlib.contextmanager
def stage(folder: Path) -> Iterator[list[Target]]:
    """Workspace server, nginx and manager, ready to be called."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    answers(folder / "answers")
    backend, proxy = free_port(), free_port()
    named = " ".join(f"{size}.{form} {size}.{form};" for size in SIZES for form in ("json", "sse"))
    health = json.dumps({"ok": True, "nonce": NONCE})
    with contextlib.ExitStack() as stack:
        config = BACKEND.format(port=backend, folder=folder, answers=named, health=health)
        server = stack.enter_context(nginx(folder, "backend", config, DRIVER))
        config = PROXY.format(port=proxy, backend=backend, buffering="on")
        yardstick = stack.enter_context(nginx(folder, "proxy", config, MEASURED))
        one, control = stack.enter_context(manager(folder))
        stack.enter_context(registered(control, project, backend, server.pid))
        address = str(control.get("/status")["address"])
        session = bound_session(address, project)
        found = {"modern": f"{address}?cwd={project}", "legacy": address}
        plain = dict.fromkeys(found, f"http://127.0.0.1:{proxy}/mcp")
        own = {"modern": {}, "legacy": {headers.SESSION: session}}
        yield [Target("nginx", plain, yardstick.pid, own), Target("manager", found, one.pid, own)]


def main() -> None:
    """Measure and print the table."""
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    said.add_argument("--seconds", type=float, default=2.0, help="of one round")
    said.add_argument("--rounds", type=int, default=5)
    said.add_argument("--only", default="", help="words that a row's label must contain, separated by commas")
    wanted = said.parse_args()
    missing = [one for one in ("nginx", "wrk") if shutil.which(one) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    cases = [case for case in CASES if all(word in case.label for word in wanted.only.split(",") if word)]
    with tempfile.TemporaryDirectory(prefix="lmtb-bench-") as name, stage(Path(name)) as targets:
        rows: dict[Case, dict[str, list[Measured]]] = {}
        for case in cases:
            rows[case] = {one.name: [] for one in targets}
            for _ in range(wanted.rounds):
                for target in targets:
                    found = measure(case, target, Path(name), max(1, round(wanted.seconds)))
                    rows[case][target.name].append(found)
        print("\n".join(table(rows)))
        print(f"memory: manager {rss_mb(targets[1].pid):.1f} MB, nginx {rss_mb(targets[0].pid):.1f} MB")


if __name__ == "__main__":
    main()
