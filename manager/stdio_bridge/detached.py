"""Program that starts the manager in the background: `python -m manager.stdio_bridge.detached LOG [OPTION]…`.

This process exits and leaves the manager to init. A client that kills its MCP servers with all their
descendants therefore does not kill the manager, which serves other clients, too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import file_calls

WATCHED_S: Final = 5.0
"""Seconds in which an exit of the manager is reported; after that it counts as serving."""


def main() -> int:
    """Start the manager. Returns its exit code if it exits at once, 0 if it serves or a signal killed it."""
    descriptor = file_calls.open_to_append(Path(sys.argv[1]))
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "manager", "serve", "--background", *sys.argv[2:]],
        stdin=subprocess.DEVNULL,
        stdout=descriptor,
        stderr=descriptor,
        start_new_session=True,
    )
    try:
        return max(0, process.wait(WATCHED_S))
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it continues without a parent; avoids the warning of `Popen`
        return 0


if __name__ == "__main__":
    sys.exit(main())
