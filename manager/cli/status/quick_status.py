"""A fast path of `lmtb status` without options, which needs no click.

Failures and help are left to the verb itself (`show.py`).
"""

from __future__ import annotations

import sys

from lm_tools_bridge.machine.files.private_files import UnsafePathError
from lm_tools_bridge.terminal.show import show
from lm_tools_bridge.terminal.tones import Tone
from lm_tools_bridge.terminal.views import Note
from lm_tools_bridge.terminal.waiting import waiting
from manager.cli.output.overview import overview
from manager.cli.output.project_trust import may_wait
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths


def status() -> bool:
    """Print the status; False if the verb itself has to run, as for a project that may wait for trust."""
    if may_wait():
        return False
    try:
        control = Control(Paths.of_user().control_socket)
        with waiting("asking the manager"):
            views = overview(control.get("/mcp/status"), control.get)
        show(*views)
    except (NoManager, ManagerFault, ControlRefusal, UnsafePathError, OSError):
        return False
    except KeyboardInterrupt:  # in the words of the other verbs
        show("", Note("interrupted", Tone.BAD), "Next step: run it again", err=True)
        sys.exit(1)
    return True
