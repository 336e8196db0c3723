"""Runs `systemctl --user` and `launchctl`: the only module of the service verbs that starts programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final, NamedTuple

from lm_tools_bridge.machine.processes.login_session import with_session_folder

SYSTEMCTL: Final = ("systemctl", "--user")
_ASK_S: Final = 3.0
_ACT_S: Final = 120.0
"""Longest a command may take: starting the service can wait 75 s for its port, stopping it 45 s."""


class Outcome(NamedTuple):
    """How a command ended: whether with exit code 0, and what it printed on both streams."""

    ok: bool
    text: str


def run(command: Sequence[str], timeout_s: float = _ACT_S) -> Outcome:
    """Run a command to its end. A command that cannot run, or takes too long, has failed."""
    try:
        done = subprocess.run(
            list(command),
            env=with_session_folder(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        return Outcome(False, f"{command[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Outcome(False, f"{command[0]} did not end within {timeout_s:g} s")
    return Outcome(done.returncode == 0, (done.stdout + done.stderr).strip())


def is_installed() -> bool:
    """Whether this machine has the program `systemctl`."""
    return shutil.which(SYSTEMCTL[0]) is not None


def answers() -> Outcome:
    """Whether the user's service manager answers; a container or `su` has none."""
    return run([*SYSTEMCTL, "show-environment"], _ASK_S)


def state(unit: str) -> str:
    """What `is-active` says: active, inactive, failed, activating ...; empty if nothing answers."""
    return _word(run([*SYSTEMCTL, "is-active", unit], _ASK_S))


def enabled(unit: str) -> str:
    """What `is-enabled` says: enabled, disabled, not-found ...; empty if nothing answers."""
    return _word(run([*SYSTEMCTL, "is-enabled", unit], _ASK_S))


def _word(outcome: Outcome) -> str:
    words = outcome.text.split()
    return words[0] if len(words) == 1 else ""
