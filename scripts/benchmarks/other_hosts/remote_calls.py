"""Calls a tool over one or more connections, and takes the times or the rate.

Usage: python -m scripts.benchmarks.other_hosts.remote_calls PORT TARGET SECONDS
It prints the calls a second of several connections.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.names import MODERN_REVISIONS
from scripts.benchmarks.startup.cold import META

SUM: Final = {"expression": "6 * 7"}
CONNECTIONS: Final = 8


class Caller:
    """One connection that sends the same call in one piece, as most clients do."""

    def __init__(self, port: int, target: str) -> None:
        params = {"name": "calculator", "arguments": SUM, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": names.TOOLS_CALL, "params": params}
        body = json.dumps(message, separators=(",", ":")).encode()
        fields = {
            "Host": f"127.0.0.1:{port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            headers.VERSION: MODERN_REVISIONS[0],
            headers.METHOD: names.TOOLS_CALL,
            headers.NAME: "calculator",
            "Content-Length": str(len(body)),
        }
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        self._request = "\r\n".join([*lines, "", ""]).encode() + body
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def __call__(self) -> None:
        """Call, and check the answer."""
        self._socket.sendall(self._request)
        status, length = self._file.readline(), 0
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        body = self._file.read(length)
        if b" 200 " not in status or b'"value":42' not in body.replace(b" ", b""):
            raise RuntimeError(f"not answered: {status!r} {body!r}")

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()


def times(port: int, target: str, count: int) -> list[float]:
    """Seconds that each of so many calls takes, on one connection."""
    with contextlib.closing(Caller(port, target)) as call:
        return [timed(call) for _ in range(count)]


def _count(port: int, target: str, until: float, counts: list[int]) -> None:
    count = 0
    with contextlib.closing(Caller(port, target)) as call:
        while time.monotonic() < until:
            call()
            count += 1
    counts.append(count)


def timed(call: Callable[[], None]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    counts: list[int] = []
    end = time.monotonic() + float(sys.argv[3])
    threads = [
        threading.Thread(target=_count, args=(int(sys.argv[1]), sys.argv[2], end, counts))
        for _ in range(CONNECTIONS)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print(int(sum(counts) / float(sys.argv[3])))
