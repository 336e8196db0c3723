"""Renders the files of the service: the shipped systemd units with the program's path, or a launchd plist."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

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
