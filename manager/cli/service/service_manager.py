"""The files and commands of systemd and launchd: units or a plist, `systemctl --user`, `launchctl`.

It is the only module of the service verbs that starts programs.
"""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.machine.own_process import with_session_folder

SYSTEMCTL: Final = ("systemctl", "--user")
# A question is answered in milliseconds; without a user manager, `systemctl` would wait for D-Bus (25 s).
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


SERVICE: Final = "lm-tools-bridge.service"
SOCKET: Final = "lm-tools-bridge.socket"
UNITS: Final = (SOCKET, SERVICE)
LABEL: Final = "lm-tools-bridge"
"""The name of the job in launchd."""
_SHIPPED: Final = Path(__file__).with_name("units")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./+:@,=-]+\Z")

_REFUSED: Final = frozenset("\"'\\$")
"""Characters that systemd does not accept in the path of a program; in arguments it does."""
_ENV: Final = "/usr/bin/env"


def shipped_units() -> dict[str, str]:
    """The units as they come with the program, by name."""
    return {name: (_SHIPPED / name).read_text("utf-8") for name in UNITS}


def systemd_units(shipped: Mapping[str, str], program: Sequence[str], port: int) -> dict[str, str]:
    """The units that start this program, on this port of the loopback interface.

    Args:
        shipped: the units of `shipped_units`.
        program: the command line of `lmtb`, without its verb.
        port: the port that clients connect to.
    """
    if _REFUSED.intersection(program[0]):
        program = (_ENV, *program)
    command = " ".join(map(_quoted, program))
    values = {SERVICE: ("ExecStart", f"{command} serve"), SOCKET: ("ListenStream", f"127.0.0.1:{port}")}
    return {name: _with_value(text, *values[name]) for name, text in shipped.items()}


def launchd_plist(program: Sequence[str], log: str) -> bytes:
    """The launchd job that starts this program at login. It has never been tried on macOS."""
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": [*program, "serve"],
            "RunAtLoad": True,
            # exit 0 means that somebody stopped it
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": 45,
            # workspace servers outlive a manager that crashes: the next one adopts them
            "AbandonProcessGroup": True,
            "StandardErrorPath": log,
        }
    )


def _with_value(text: str, key: str, value: str) -> str:
    lines = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    """A word of `ExecStart=` that systemd reads back as it is: no specifier, no variable, no escape."""
    doubled = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.match(doubled):
        return doubled
    escaped = doubled.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
