"""Checks that nginx and wrk are installed, and installs them if it runs as root on Debian or Ubuntu."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping

from scripts.benchmarks.environment import nginx
from scripts.benchmarks.load import wrk
from scripts.benchmarks.plan import Missing

NEEDED: Mapping[str, Callable[[], object]] = {
    "nginx": nginx.path,
    "libnginx-mod-http-lua": nginx.has_modules,
    "wrk": wrk.program,
}


def versions() -> dict[str, str]:
    """The versions of nginx and wrk, which are installed first if possible.

    Raises:
        Missing: a program is not installed.
    """
    if sys.platform != "linux":
        raise Missing("The bench reads processor time from /proc. Next step: run it on Linux.")
    if missing := _missing():
        _install(missing)
    if missing := _missing():
        names = " ".join(missing)
        raise Missing(f"Not installed: {names}. Next step (Debian, Ubuntu): apt-get install {names}")
    return {"nginx": nginx.version(), "wrk": wrk.version()}


def _missing() -> list[str]:
    return [name for name, is_here in NEEDED.items() if not is_here()]


def _install(names: list[str]) -> None:
    """Install Debian packages if this runs as root, without starting the service of nginx."""
    if os.geteuid() or shutil.which("apt-get") is None:
        return
    print(f"installing {' '.join(names)}", file=sys.stderr)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *names]
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
