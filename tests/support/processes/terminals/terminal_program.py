"""Runs `lmtb` many times, each in a fork with a pseudo-terminal of its own, and prints what they wrote as JSON.

A program of its own, because it forks: imports are paid once. Reads a JSON list of objects with `words`,
`columns`, `rows`, `cwd`, `environ` and `typed` (what a person answers to each question) from standard input.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import selectors
import signal
import struct
import sys
import termios
import time
import traceback
from typing import Any

import rich.console  # noqa: F401  loaded before the forks, as are these verbs

from manager.cli import main, verbs

PARALLEL = 4
LONGEST_S = 20.0


def _child(request: dict[str, Any]) -> None:
    size = struct.pack("HHHH", request["rows"], request["columns"], 0, 0)
    fcntl.ioctl(0, termios.TIOCSWINSZ, size)
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    # those of the parent have read and written pipes
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115  open as long as the program runs
    sys.argv = ["lmtb", *request["words"]]
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001  as the interpreter would
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: the other side has ended
        return b""


def run(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The exit code and output of each."""
    results: list[dict[str, Any]] = [{"output": b""} for _ in requests]
    waiting = list(enumerate(requests))
    living: dict[int, tuple[int, int]] = {}
    began: dict[int, float] = {}
    with selectors.DefaultSelector() as selector:
        while waiting or living:
            while waiting and len(living) < PARALLEL:
                at, request = waiting.pop(0)
                pid, descriptor = pty.fork()
                if pid == 0:
                    _child(request)
                living[descriptor] = (pid, at)
                began[descriptor] = time.monotonic()
                selector.register(descriptor, selectors.EVENT_READ)
            ready = selector.select(LONGEST_S)
            for descriptor, (pid, at) in living.items():
                if time.monotonic() - began[descriptor] > LONGEST_S:
                    os.kill(pid, signal.SIGKILL)
                    results[at]["output"] += b"\nkilled: it did not end"
            for key, _ in ready:
                descriptor = int(key.fd)
                pid, at = living[descriptor]
                chunk = _read(descriptor)
                results[at]["output"] += chunk
                if chunk.endswith(b": "):  # a question
                    os.write(descriptor, requests[at]["typed"].encode())
                if not chunk:
                    selector.unregister(descriptor)
                    os.close(descriptor)
                    results[at]["seconds"] = time.monotonic() - began[descriptor]
                    results[at]["code"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    del living[descriptor]
    return [{**one, "output": one["output"].decode("utf-8", "replace")} for one in results]


if __name__ == "__main__":
    for verb in verbs.cli.list_commands(None):
        verbs.cli.get_command(None, verb)
    given = json.load(sys.stdin)
    json.dump(run(given), sys.stdout)
