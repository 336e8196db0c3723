"""Defines what a child process may access, and detects which enforcement layers this machine supports.

`launcher.py` applies the layers. They do not cover UDP, sockets in the file system, or any system but Linux:
they protect against accidents and simple attacks, and are no virtual machine.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.private_folder import temporary_folder

LAUNCHER: Final = str(Path(__file__).with_name("launcher.py"))
# The probe is a short run of Python, which takes a second or two on a machine that is starting.
_PROBE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Confinement:
    """Restrictions on a child and all processes it starts. None: not limited.

    Attributes:
        read_write: folders and files it may write, beside `/dev/null`, `/dev/zero` and `/dev/full`; missing
            paths are ignored.
        read_only: folders and files it may read and execute, its own program and libraries included; None for
            the whole file system.
        unread: files and folders of which it may read only what `read_only` names; with these, it reads all
            others, and lists every folder.
        pinned: folders that stay where they are, whatever may be written in them.
        fixed: files and folders that it may not write although they are in `read_write`. Works only with the
            layer `fixed-files`, and fails the start without it.
        hidden: folders that it finds empty. Works only with the layer `fixed-files`, as `fixed` does.
        rest_fixed: whether all but `read_write` is fixed, so that not even modes and times can change,
            which Landlock does not know. Works only with that layer, too.
        caches: folders it may write if no part of the path is a link; nothing in them can be executed.
        unexecuted: folders in which nothing can be executed, whatever `read_only` says. A program from
            elsewhere can still read files there as its input.
        network: whether it may connect or listen by TCP.
        offline: whether it has no network at all, not even UDP or that of this machine. Works only with the
            layer `fixed-files`, and fails the start without it.
        max_file_bytes: largest file it may write.
        max_memory_bytes: largest address space.
        cpu_s: processor time in seconds.
        max_open_files: number of open descriptors.
    """

    read_write: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] | None = None
    unread: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    rest_fixed: bool = False
    caches: tuple[Path, ...] = ()
    unexecuted: tuple[Path, ...] = ()
    network: bool = True
    offline: bool = False
    max_file_bytes: int | None = None
    max_memory_bytes: int | None = None
    cpu_s: int | None = None
    max_open_files: int | None = None

    def launcher_arguments(self) -> list[str]:
        """The restrictions as arguments of the launcher."""
        limits = {
            "FSIZE": self.max_file_bytes,
            "AS": self.max_memory_bytes,
            "CPU": self.cpu_s,
            "NOFILE": self.max_open_files,
        }
        everything = () if self.unread else (Path("/"),)
        readable = everything if self.read_only is None else self.read_only
        return [
            f"network={int(self.network)}",
            *(("offline=1",) if self.offline else ()),
            *(("rest_fixed=1",) if self.rest_fixed else ()),
            *(f"limit={name}:{value}" for name, value in limits.items() if value is not None),
            *(f"write={path}" for path in self.read_write),
            *(f"read={path}" for path in readable),
            *(f"unread={path}" for path in self.unread),
            *(f"pinned={path}" for path in self.pinned),
            *(f"fixed={path}" for path in self.fixed),
            *(f"hidden={path}" for path in self.hidden),
            *(f"cache={path}" for path in self.caches),
            *(f"unexecuted={path}" for path in self.unexecuted),
        ]


_PROBE: Final = """
import ctypes, os, resource, sys
def refused():
    try:
        open(sys.argv[1], "w").close()
    except PermissionError:
        return True
    return False
status = open("/proc/self/status").read()
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal), 0, 0, 0)
found = []
if refused(): found.append("landlock-abi-" + sys.argv[2])
if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 99: found.append("rlimits")
if "NoNewPrivs:\\t1" in status: found.append("no-new-privs")
if signal.value == 9: found.append("pdeathsig")
if os.statvfs(sys.argv[3]).f_flag & os.ST_RDONLY: found.append("fixed-files")
print(*found)
"""


@functools.cache
def available_layers() -> tuple[str, ...]:
    """The layers that work here: `landlock-abi-N`, `rlimits`, `no-new-privs`, `pdeathsig`, `fixed-files`.

    Landlock restricts files from version 1 (truncation from 3), TCP from 4, signals and abstract sockets from
    6. Fixed files need a mount namespace, which some systems allow the superuser only. The first call starts
    a child to probe them and blocks for about 40 ms. Empty outside Linux.
    """
    if sys.platform != "linux":
        return ()
    try:
        folder = temporary_folder()
        folder.open()
        try:
            (fixed := folder.path / "fixed").mkdir()
            return _probed(folder.path, fixed, (fixed,)) or _probed(folder.path, fixed, ())
        finally:
            folder.close()
    except (OSError, subprocess.SubprocessError):
        return ()


def _probed(folder: Path, place: Path, fixed: tuple[Path, ...]) -> tuple[str, ...]:
    """The layers that a child finds; none if it cannot be started so."""
    from workspace_server.processes import launcher  # noqa: PLC0415  otherwise only run as a program

    limits = Confinement(max_open_files=99, fixed=fixed)
    python = [sys.executable, "-I", "-S"]
    words = [str(folder / "file"), str(launcher.landlock_version()), str(place)]
    done = subprocess.run(
        [*python, LAUNCHER, "confined=1", *limits.launcher_arguments(), "--", *python, "-c", _PROBE, *words],
        capture_output=True,
        env={},
        cwd="/",
        timeout=_PROBE_S,
        check=False,
    )
    return tuple(done.stdout.decode("utf-8", "replace").split())
