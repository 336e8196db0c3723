"""Starts the user's manager if none runs: as the systemd service if there is one, else in the background.

The caller (`manager_connection.py`) has seen on the control socket that none runs. If several bridges start
one at the same time, one manager gets the lock and serves; the others exit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.own_process import with_session_folder
from lm_tools_bridge.machine.private_files import UnsafePathError, make_private
from lm_tools_bridge.protocol import names
from manager import exit_codes
from manager.configuration.paths import Paths

UNIT: Final = "lm-tools-bridge.service"
_MARKS: Final = (names.CHILD_VARIABLE, names.INSTANCE_VARIABLE)
"""A manager serves everybody, whoever started it: with a mark, it would end with that program's server."""
PAUSE_S: Final = 2.0
"""Least seconds between two attempts."""
FAILED_S: Final = 30.0
"""Least seconds between two attempts after a manager exited with an error."""
# `systemctl start` of a socket returns at once; without an answer of D-Bus it would wait for 25 s.
_SYSTEMCTL_S: Final = 5.0


class ManagerStarter:
    """Starts managers for one user, one at a time. `start` blocks for some seconds; call it in a thread.

    Args:
        options: of `lmtb serve`, for a manager that is started in the background.
    """

    def __init__(
        self, paths: Paths, environ: Mapping[str, str] = os.environ, options: Sequence[str] = ()
    ) -> None:
        self._options = options
        self._paths = paths
        self._environ = {name: value for name, value in environ.items() if name not in _MARKS}
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: str | None = None
        self._next = float("-inf")
        self.is_service = False
        """Whether the last manager was started through systemd, which then has its log."""

    def start(self, now: float) -> str | None:
        """Start a manager unless one is starting already.

        Args:
            now: monotonic seconds.

        Returns:
            Why none can be started, for the user; None if one is starting.
        """
        code = exit_codes.OK if self._process is None else self._process.poll()
        if code is None:
            return None
        if code != exit_codes.OK:
            self._process, self._next = None, now + FAILED_S
            self._problem = f"the manager does not start (exit code {code}); its log is {self.log}"
        elif now >= self._next:
            self._next = now + PAUSE_S
            self.is_service = self._by_systemd()
            self._problem = None if self.is_service else self._in_background()
        return self._problem

    @property
    def log(self) -> Path:
        """The log of a manager that is started in the background."""
        return self._paths.log_file

    def _by_systemd(self) -> bool:
        """Start the systemd unit. False if there is none, or if `LMTB_` variables are set, which it lacks."""
        if any(name.startswith("LMTB_") for name in self._environ) or sys.platform != "linux":
            return False
        command = ["systemctl", "--user", "--no-block", "start", UNIT]
        try:
            done = subprocess.run(
                command,
                env=with_session_folder(self._environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_SYSTEMCTL_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def _in_background(self) -> str | None:
        try:
            make_private(self.log.parent)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "manager.stdio_bridge.detached", str(self.log), *self._options],
                # do not keep the current folder, which may be unmounted or removed later
                cwd="/",
                env=with_session_folder(self._environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, UnsafePathError) as error:
            return f"the manager cannot be started: {worded(error)}"
        return None
