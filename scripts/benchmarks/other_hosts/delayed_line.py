"""A TCP proxy on loopback that delays what passes by half of a round trip, in each direction.

Usage: python -m scripts.benchmarks.other_hosts.delayed_line PORT MILLISECONDS
It prints its own port, and ends with its input.
Threads wait rather than an event loop, whose timers are rounded to whole milliseconds.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from scripts.benchmarks.plan import ROOT

PIECE: Final = 64 * 1024
Waiting = queue.SimpleQueue[tuple[float, bytes]]


@contextlib.contextmanager
def delayed_line(port: int, round_trip_ms: float) -> Iterator[int]:
    """Run the proxy before a port until the block ends; its own port."""
    command = [
        sys.executable,
        "-m",
        "scripts.benchmarks.other_hosts.delayed_line",
        str(port),
        str(round_trip_ms),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _receive(source: socket.socket, waiting: Waiting, delay_s: float) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(PIECE):
            waiting.put((time.monotonic() + delay_s, data))
    waiting.put((0.0, b""))


def _send(sink: socket.socket, waiting: Waiting) -> None:
    with contextlib.suppress(OSError):
        while (found := waiting.get())[1]:
            if (left := found[0] - time.monotonic()) > 0:
                time.sleep(left)
            sink.sendall(found[1])
        sink.shutdown(socket.SHUT_RDWR)


def _carry(near: socket.socket, port: int, delay_s: float) -> None:
    far = socket.create_connection(("127.0.0.1", port))
    for source, sink in ((near, far), (far, near)):
        sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting: Waiting = queue.SimpleQueue()
        threading.Thread(target=_receive, args=(source, waiting, delay_s), daemon=True).start()
        threading.Thread(target=_send, args=(sink, waiting), daemon=True).start()


def _serve(port: int, delay_s: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        threading.Thread(target=_accept, args=(server, port, delay_s), daemon=True).start()
        sys.stdin.read()


def _accept(server: socket.socket, port: int, delay_s: float) -> None:
    while True:
        near, _ = server.accept()
        _carry(near, port, delay_s)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]) / 2000)
