"""A program that hides from whom it was started, then sends requests and prints each answer on a line.

    python hiding_program.py WAY PLACE REQUESTS

WAY: `plain`; `orphaned` forks twice, leaves its session and clears its environment; `detached` does so and keeps
its environment; `cleared` clears it and keeps its ancestors. PLACE: a port, or the path of a socket. REQUESTS:
JSON, a list of [method, target, fields, body]; with the method `LINE`, the body is sent as a line. It needs the
standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys

LINE = "LINE"


def send(place: str, method: str, target: str, fields: dict[str, str], body: str) -> str:
    sock = connected(place)
    host = f"127.0.0.1:{place}" if place.isdigit() else "localhost:0"
    head = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(body)), **fields}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    message = body + "\n" if method == LINE else "\r\n".join([*lines, "Connection: close", "", body])
    with sock, contextlib.suppress(OSError):
        sock.sendall(message.encode())
        answer = b""
        while (piece := sock.recv(65536)) and not (method == LINE and piece.endswith(b"\n")):
            answer += piece
        answer += piece
        return " ".join(answer.decode(errors="replace").split())
    return ""


def connected(place: str) -> socket.socket:
    if place.isdigit():
        return socket.create_connection(("127.0.0.1", int(place)), timeout=20)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(place)
    return sock


def run(place: str, requests: str) -> None:
    for request in json.loads(requests):
        print(send(place, *request), flush=True)


def hide(way: str) -> None:
    """Hide; where the program forks, its first process waits for the last one."""
    if way in {"orphaned", "detached"}:
        ends, stays_open = os.pipe()
        if os.fork():
            os.close(stays_open)
            os.read(ends, 1)
            os._exit(0)
        os.setsid()
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        os.set_inheritable(stays_open, True)
        while os.getppid() == parent:
            os.sched_yield()
    if way == "cleared" and (child := os.fork()):
        os.waitpid(child, 0)
        os._exit(0)
    if way in {"orphaned", "cleared"}:
        os.execve(sys.executable, [sys.executable, "-I", __file__, "plain", *sys.argv[2:]], {})


if __name__ == "__main__":
    way, place, requests = sys.argv[1:]
    hide(way)
    run(place, requests)
