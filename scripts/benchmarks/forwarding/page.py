"""Measures what open pages cost the manager: its processor time with and without one, under the same load.

Usage: PYTHONPATH=tests python -m scripts.benchmarks.forwarding.page [--projects N] [--rate N] [--seconds S] …
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from lm_tools_bridge.protocol import headers, jsonrpc, names
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment.own_manager import POST_HEADERS, Manager, bound_session, manager, project

THREADS = 4
TOOL = "lm_listDirectory"


@contextlib.contextmanager
def load(one: Manager, sessions: list[str], rate: float) -> Iterator[list[int]]:
    """Call a tool of all sessions in turn, `rate` times a second; yields the number of calls per thread."""
    stop, done = threading.Event(), [0] * THREADS

    def call(place: int) -> None:
        mine = sessions[place::THREADS]
        body = jsonrpc.request(b"1", names.TOOLS_CALL, {"name": TOOL, "arguments": {"path": "."}})
        connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=30)
        began = time.monotonic()
        while not stop.wait(max(0.0, began + done[place] * THREADS / rate - time.monotonic())):
            fields = {headers.VERSION: REVISION, headers.SESSION: mine[done[place] % len(mine)]}
            connection.request("POST", names.MCP_PATH, body, {**POST_HEADERS, **fields})
            said = connection.getresponse().read()
            if b'"result"' not in said:
                raise RuntimeError(said.decode())
            done[place] += 1
        connection.close()

    threads = [threading.Thread(target=call, args=(place,), daemon=True) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def open_page(one: Manager) -> Iterator[list[int]]:
    """Read the changes of the page as a browser does; yields the number of bytes so far."""
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=30)
    connection.request("GET", "/page/changes")
    response, read = connection.getresponse(), [0]
    sock = connection.sock

    def drain() -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while some := response.read1(65536):
                read[0] += len(some)

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    try:
        yield read
    finally:
        with contextlib.suppress(OSError):
            sock.shutdown(2)
        thread.join()
        connection.close()


def share(pid: int, seconds: float) -> float:
    """The processor time of a process in the next seconds, as percent of one processor."""
    process = psutil.Process(pid)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after, took = process.cpu_times(), time.monotonic() - began
    return 100 * (after.user - before.user + after.system - before.system) / took


def main() -> int:
    """Measure in turns, and print percent of a processor; the exit code."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--projects", type=int, default=50)
    options.add_argument("--rate", type=float, default=200.0, help="calls per second; 0 for none")
    options.add_argument("--seconds", type=float, default=15.0)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder, cores = Path(place), frozenset(os.sched_getaffinity(0))
        one = stack.enter_context(manager(folder / "home", cores))
        roots = [project(folder / f"project-{number}") for number in range(given.projects)]
        sessions = [bound_session(one, root) for root in roots]
        done = stack.enter_context(load(one, sessions, given.rate)) if given.rate else [0]
        time.sleep(5)  # servers start, caches fill
        closed, opened = [], []
        for _ in range(given.rounds):
            began, before = time.monotonic(), sum(done)
            closed.append(share(one.pid, given.seconds))
            with open_page(one) as read:
                opened.append(share(one.pid, given.seconds))
            rate = (sum(done) - before) / (time.monotonic() - began)
            print(
                f"closed {closed[-1]:.2f} %, open {opened[-1]:.2f} %, {rate:.0f} calls/s, "
                f"{read[0] / given.seconds / 1000:.0f} kB/s to the page",
                flush=True,
            )
        print(
            f"an open page costs {statistics.median(opened) - statistics.median(closed):.2f} % of a processor"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
