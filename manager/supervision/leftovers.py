"""Ends what a workspace server left running when it could not tidy up itself.

Every process that a workspace server starts carries a mark in its environment, which its own children inherit
however far they move away (new session, new group, no parent). The mark begins with the instance's id.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Final

from host.pidfd import kill_if
from protocol import names

ROUNDS: Final = 20
PAUSE_S: Final = 0.02


def end(instance: str) -> int:
    """Kill every process that carries this instance's mark; returns how many there were. Blocks.

    Looks again until none is left, because a process may start another one while it is looked for.
    """
    ended: set[int] = set()
    mark = _mark(instance).encode()

    def carries_mark(pid: int) -> bool:
        return _has(pid, mark)

    for _ in range(ROUNDS):
        found = marked(instance)
        if not found:
            break
        ended.update(pid for pid in found if kill_if(pid, carries_mark))
        time.sleep(PAUSE_S)
    return len(ended)


def marked(instance: str) -> list[int]:
    """The living processes of this user that carry the instance's mark; never our own.

    We carry it ourselves where somebody that a former server started has started us.
    """
    mark, own = _mark(instance), os.getpid()
    if sys.platform == "linux":
        return [pid for pid in _pids() if pid != own and _has(pid, mark.encode())]
    return [pid for pid in _marked_elsewhere(f"{instance}.") if pid != own]


def _mark(instance: str) -> str:
    return f"{names.CHILD_VARIABLE}={instance}."


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _has(pid: int, mark: bytes) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone, or not ours
        return False
    return environ.startswith(mark) or b"\0" + mark in environ


def _marked_elsewhere(value: str) -> list[int]:
    import psutil  # noqa: PLC0415  slow to load, and rarely needed

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(names.CHILD_VARIABLE, "").startswith(value):
                found.append(process.pid)
    return found
