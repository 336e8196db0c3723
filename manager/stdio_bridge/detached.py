"""A program that starts the manager in the background: `python -m manager.stdio_bridge.detached LOG`.

It is a process of its own because it must end: what is left then belongs to nobody's process tree, and a
client that ends its servers with all their descendants does not end the manager of all the others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

WATCHED_S: Final = 5.0
"""How long a manager that ends at once is told from one that serves."""


def main() -> int:
    """Start it; its exit code where it soon ends by itself, else 0: after a kill another try is worth it."""
    descriptor = os.open(Path(sys.argv[1]), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "manager", "serve"],
        stdin=subprocess.DEVNULL,
        stdout=descriptor,
        stderr=descriptor,
        start_new_session=True,
    )
    try:
        return max(0, process.wait(WATCHED_S))
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it goes on without us; no warning that it was not waited for
        return 0


if __name__ == "__main__":
    sys.exit(main())
