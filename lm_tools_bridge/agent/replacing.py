"""Replaces this process by the terminal agent, without click, which `lmtb agent` alone does not need."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from lm_tools_bridge.machine.private_files import UnsafePathError
from manager.configuration.paths import Paths


def start_session() -> None:
    """Become a session of the agent; returns if the verb itself has to run, which tells why it cannot."""
    try:
        become(command_line(Paths.of_user(), "session", ()))
    except (UnsafePathError, OSError):
        return


def become(command: list[str]) -> NoReturn:
    """Replace this process with a program.

    Raises:
        OSError: it cannot be run.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def command_line(paths: Paths, verb: str, words: Sequence[str]) -> list[str]:
    """The program and arguments that run the agent."""
    return [
        sys.executable, "-I", "-m", "lm_tools_bridge.agent", verb, "--config-dir", str(paths.config_dir),
        "--state-dir", str(paths.state_dir), "--runtime-dir", str(paths.runtime_dir), *words,
    ]  # fmt: skip
