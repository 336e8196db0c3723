"""Decides where the lock and the sockets of one user's manager lie, for every program and every start alike.

Clients start programs with few variables: some pass HOME and PATH only. So the place depends on HOME alone.
In earlier versions it depended on XDG_RUNTIME_DIR as well: a manager of such a version is found where it is.
Standard library only and quick to import.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.files import private_files
from lm_tools_bridge.machine.files.local_disk import are_local
from lm_tools_bridge.machine.processes.login_session import session_folder

APP_NAME: Final = "lm-tools-bridge"
LOCK: Final = "manager.lock"
BASE_FOLDERS: Final = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""The variables that a manager remembers for programs that are started without them."""
# sockaddr_un holds 104 bytes on macOS and 108 on Linux, terminator included.
MAX_SOCKET_PATH_BYTES: Final = 100
_CONTROL: Final = "control.sock"
_MAX_LOCK_BYTES: Final = 4096


def fixed_folder(state_dir: Path) -> Path:
    """The runtime folder of a user whose state folder is this one, as HOME alone decides it.

    Sockets and locks of network file systems do not work everywhere, and other machines see them. Where the
    home folder is on one, the folder lies under /tmp, named by the user's number and a hash.
    """
    folder = state_dir / "run"
    if sys.platform != "linux" or are_local([folder]):
        return folder
    return Path("/tmp", f"{APP_NAME}-{os.geteuid()}-{digest_of(folder)}")  # noqa: S108 - made private before use


def control_socket_in(runtime_dir: Path, home: Path) -> Path:
    """The control socket that belongs to a runtime folder; elsewhere if its path would be too long."""
    path = runtime_dir / _CONTROL
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES or sys.platform == "win32":
        return path
    digest = digest_of(runtime_dir)
    in_home = home / f".lmtb-{digest}" / _CONTROL
    if len(os.fsencode(in_home)) <= MAX_SOCKET_PATH_BYTES:
        return in_home
    # A fixed name, not TMPDIR: command line and daemon must find the same folder in any environment.
    return Path("/tmp", f"lmtb-{os.geteuid()}-{digest}", _CONTROL)  # noqa: S108 - made private before use


def session_folders(environ: Mapping[str, str]) -> list[Path]:
    """Our folders below those that a login session has: in memory, and gone with the last session.

    The one that XDG_RUNTIME_DIR names, and the one that systemd makes for the user.
    """
    if sys.platform == "win32":
        return []
    named = environ.get("XDG_RUNTIME_DIR", "").strip()
    folders = [Path(named) if named.startswith("/") else None, session_folder(environ)]
    return [folder / APP_NAME for folder in dict.fromkeys(filter(None, folders)) if _is_private(folder)]


def served_folder(folders: Sequence[Path], home: Path, current: Path) -> Path | None:
    """The first of these folders in which a manager answers, unless one answers in `current`."""
    for folder in folders:
        if folder != current and _is_served(folder, home):
            return None if _is_served(current, home) else folder
    return None


def with_base_folders(environ: Mapping[str, str], runtime_dir: Path, *, starts: bool) -> Mapping[str, str]:
    """This environment, with the base folders of the user's manager: verbs have to write where it reads.

    Those of a manager that runs are in force, whatever a shell says. Those of one that has ended stand for
    variables that are not set; of these, folders that are gone are forgotten.

    Args:
        starts: whether this process becomes the manager.
    """
    about = _last_manager(runtime_dir) if sys.platform == "linux" else None
    variables = about.get("environment") if about is not None else None
    if about is None or not isinstance(variables, dict):
        return environ
    found = {name: variables.get(name) for name in BASE_FOLDERS}
    folders = {name: path for name, path in found.items() if isinstance(path, str) and path.startswith("/")}
    if not starts and _is_running(about.get("pid")):
        return {**environ, **dict.fromkeys(BASE_FOLDERS, ""), **folders}
    return {**{name: path for name, path in folders.items() if Path(path).is_dir()}, **environ}


def _last_manager(runtime_dir: Path) -> dict[str, Any] | None:
    """What the lock says of the manager that took it last."""
    import json  # noqa: PLC0415 - not needed before the first manager

    try:
        content = private_files.read(runtime_dir / LOCK, _MAX_LOCK_BYTES)
        about = json.loads(content.split(b"\n", 1)[0]) if content else None
    except (OSError, private_files.UnsafePathError, ValueError, RecursionError):
        return None
    return about if isinstance(about, dict) else None


def _is_running(pid: object) -> bool:
    """Whether this user has such a process. After a reboot it may be another one, which does little harm."""
    try:
        os.kill(pid if isinstance(pid, int) and pid > 0 else os.getpid(), 0)
    except OSError:
        return False
    return isinstance(pid, int) and pid > 0


def _is_served(folder: Path, home: Path) -> bool:
    """Whether a manager of this user answers in this runtime folder. A link to a socket is a signpost."""
    path = control_socket_in(folder, home)
    try:
        is_ours = stat.S_ISSOCK(path.lstat().st_mode) and path.parent.lstat().st_uid == os.geteuid()
    except OSError:
        return False
    return is_ours and _answers(path)


def _answers(path: Path) -> bool:
    import socket  # noqa: PLC0415 - 5 ms that only an upgrade needs

    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except BlockingIOError:  # its queue is full, so it lives
            return True
        except OSError:
            return False
    return True


def _is_private(folder: Path) -> bool:
    """Whether it belongs to this user, and others may not write to it. After `su` it is somebody else's."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def digest_of(folder: Path) -> str:
    """A short name for a folder, by its path."""
    import hashlib  # noqa: PLC0415 - 4 ms that only rare cases need

    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
