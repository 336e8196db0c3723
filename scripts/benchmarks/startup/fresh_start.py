"""Measures a manager without clients: time to its first answer, idle memory, time of `lmtb status`.

Usage: python -m scripts.benchmarks.startup.fresh_start [rounds, 10 by default]
The first time is from the start of the process to the answer to `server/discover`. Memory is the resident
memory of the manager alone, three seconds later. Of `lmtb status`, the processor time counts. All figures are
medians. Run it in an environment without the development packages, because they change what is imported.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.names import MODERN_REVISIONS
from scripts.benchmarks.startup import cold

REST_S: Final = 3.0
STATUS: Final = (sys.executable, "-I", "-m", "manager", "status")


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether the endpoint answers a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    request = {"jsonrpc": "2.0", "id": 1, "method": names.DISCOVER, "params": {"_meta": cold.META}}
    fields = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        headers.VERSION: MODERN_REVISIONS[0],
        headers.METHOD: names.DISCOVER,
    }
    try:
        connection.request("POST", names.MCP_PATH, json.dumps(request), fields)
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


def one_round(folder: Path) -> tuple[float, float, float]:
    """Milliseconds to the first answer, MiB when idle, milliseconds of processor time of `lmtb status`."""
    places = {f"LMTB_{one}_DIR": str(folder / one.lower()) for one in ("CONFIG", "STATE", "RUNTIME")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **places}
    port = free_port()
    with (folder / "log").open("wb") as log:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "manager", "serve", "--http-port", str(port)],
            env=environ, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while not answers(port):
                time.sleep(0.002)
            started = 1000 * (time.perf_counter() - began)
            time.sleep(REST_S)
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(STATUS, env=environ, check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        finally:
            process.terminate()
            process.wait()
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return started, resident, 1000 * spent


def main() -> None:
    """Measure and print the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(one_round(Path(folder)))
    started, resident, spent = (statistics.median(column) for column in zip(*found, strict=True))
    print(f"first answer {started:.0f} ms; idle {resident:.1f} MiB; lmtb status {spent:.0f} ms of CPU")


if __name__ == "__main__":
    main()
