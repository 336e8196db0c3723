"""A fast path of `lmtb status` without options, which needs no click.

Failures and help are left to the verb itself (`show.py`).
"""

from __future__ import annotations

import sys

from host.private_files import UnsafePathError
from manager.cli.output.overview import overview
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.paths import Paths


def status() -> bool:
    """Print the status; False if the verb itself has to run."""
    try:
        control = Control(Paths.of_user().control_socket)
        sys.stdout.write(overview(control.get("/mcp/status"), control.get) + "\n")
        sys.stdout.flush()
    except (NoManager, ManagerFault, ControlRefusal, UnsafePathError, OSError):
        return False
    except KeyboardInterrupt:  # in the words of click
        sys.stderr.write("\nAborted!\n")
        sys.exit(1)
    return True
