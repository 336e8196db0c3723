"""Finds the files and folders of one user's manager, for every program and every start alike.

Short command line verbs import it, so it uses the standard library only. On Linux the XDG rules are written
out here: platformdirs costs 10 ms and reads the process environment instead of the mapping it is given (a
test checks that both agree). Elsewhere platformdirs decides. Nothing is created here.

Clients start programs with few variables: some pass HOME and PATH only. So the place of the lock and the
sockets depends on HOME alone. In earlier versions it depended on XDG_RUNTIME_DIR as well: a manager of such
a version is found where it is.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.disks import are_local
from lm_tools_bridge.machine.own_process import own_euid, session_folder
from lm_tools_bridge.machine.private_files import UnsafePathError

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
    return Path("/tmp", f"{APP_NAME}-{own_euid()}-{digest_of(folder)}")  # noqa: S108 - made private before use


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
    return Path("/tmp", f"lmtb-{own_euid()}-{digest}", _CONTROL)  # noqa: S108 - made private before use


def session_folders(environ: Mapping[str, str]) -> list[Path]:
    """Our folders below those that a login session has: in memory, and gone with the last session.

    The one that XDG_RUNTIME_DIR names, and the one that systemd makes for the user.
    """
    if sys.platform == "win32":
        return []
    session_dir = environ.get("XDG_RUNTIME_DIR", "").strip()
    folders = [Path(session_dir) if session_dir.startswith("/") else None, session_folder(environ)]
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
        is_ours = stat.S_ISSOCK(path.lstat().st_mode) and path.parent.lstat().st_uid == own_euid()
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
    return status.st_uid == own_euid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def digest_of(folder: Path) -> str:
    """A short name for a folder, by its path."""
    import hashlib  # noqa: PLC0415 - 4 ms that only rare cases need

    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]


class Paths(NamedTuple):
    """The absolute paths of one user's manager. None of them is created or checked by making this value.

    `control_socket` lies in `runtime_dir` unless its path would exceed 100 bytes. Then it lies in a folder
    named by a hash of `runtime_dir`: in the home folder, or, where that is too long as well, under /tmp. Both
    are private in the same way: the folder must pass `make_private(control_socket.parent)` before use, so a
    folder somebody else made first is refused, and /tmp's sticky bit keeps others from renaming ours away.

    Attributes:
        memory_dir: our folder in the memory of the user's login session, if there is a session.
        former_dirs: the runtime folders of earlier versions.
        base_folders: the variables that moved `config_dir` or `state_dir`; a manager remembers them.
        is_former: `runtime_dir` is that of an earlier version, because its manager still serves there.
    """

    config_dir: Path
    state_dir: Path
    runtime_dir: Path
    control_socket: Path
    memory_dir: Path | None = None
    former_dirs: tuple[Path, ...] = ()
    base_folders: Mapping[str, str] = MappingProxyType({})
    is_former: bool = False

    @property
    def config_file(self) -> Path:
        """The user's settings (TOML); need not exist."""
        return self.config_dir / "config.toml"

    @property
    def state_file(self) -> Path:
        """The SQLite database of workspaces and sessions."""
        return self.state_dir / "state.sqlite3"

    @property
    def calls_file(self) -> Path:
        """The SQLite database of recorded calls."""
        return self.state_dir / "calls.sqlite3"

    @property
    def tokens_file(self) -> Path:
        """The digests of tokens."""
        return self.state_dir / "tokens.json"

    @property
    def logs_dir(self) -> Path:
        """The folder of log files."""
        return self.state_dir / "logs"

    @property
    def log_file(self) -> Path:
        """The manager's own log; `manager/housekeeping.py` limits it."""
        return self.logs_dir / "manager.log"

    @property
    def tunnel_socket(self) -> Path:
        """The MCP endpoint for managers on other hosts, beside the control socket."""
        return self.control_socket.with_name("tunnel.sock")

    @property
    def lock_file(self) -> Path:
        """The file whose lock makes the manager single (see `manager.startup.lock`)."""
        return self.runtime_dir / LOCK

    @property
    def unsaved_file(self) -> Path:
        """What waits until the disk of the state folder has room: on another disk where there is one.

        Managers with another HOME may have the same session.
        """
        if self.memory_dir is None:
            return self.runtime_dir / "unsaved-state"
        return self.memory_dir / f"unsaved-state-{digest_of(self.state_dir)}"

    @classmethod
    def of_user(cls, environ: Mapping[str, str] = os.environ, *, starts: bool = False) -> Paths:
        """Returns the paths of the user whose environment this is.

        `LMTB_CONFIG_DIR`, `LMTB_STATE_DIR` and `LMTB_RUNTIME_DIR` override one folder each; an overridden
        state folder has the runtime folder in it. Otherwise the runtime folder depends on HOME alone, so that
        all programs find the same manager. While a manager of an earlier version serves elsewhere, it is that
        one's. XDG_CONFIG_HOME and XDG_STATE_HOME are those of the manager that runs, unless this process
        `starts` as the manager; those of the last manager where they are not set.

        Raises UnsafePathError for an override or HOME that is not absolute: it would mean another folder for
        every caller.
        """
        home = _home(environ)
        state_override = _override(environ, "LMTB_STATE_DIR")
        runtime_override = _override(environ, "LMTB_RUNTIME_DIR")
        is_plain = not (state_override or runtime_override)
        runtime_dir = runtime_override or (
            state_override / "run" if state_override else fixed_folder(_state_default({}, home))
        )
        if is_plain:
            environ = with_base_folders(environ, runtime_dir, starts=starts)
        state_default = _state_default(environ, home)
        in_memory = [] if runtime_override else session_folders(environ)
        former = (*in_memory, state_default / "run") if is_plain else tuple(in_memory)
        served = served_folder(former, home, runtime_dir)
        runtime_dir = served or runtime_dir
        return cls(
            _override(environ, "LMTB_CONFIG_DIR") or _config_default(environ, home),
            state_override or state_default,
            runtime_dir,
            control_socket_in(runtime_dir, home),
            in_memory[0] if is_plain and in_memory else None,
            tuple(folder for folder in former if is_plain and folder != runtime_dir),
            {name: environ[name] for name in BASE_FOLDERS if is_plain and _xdg(environ, name)},
            served is not None,
        )


def _home(environ: Mapping[str, str]) -> Path:
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:  # nor does the user database know this user
        reason = "is not set, and the user database names no home folder"
        raise UnsafePathError(Path("HOME"), reason, "set HOME to your home folder") from error
    if not home.is_absolute():
        raise UnsafePathError(home, "(from HOME) is not an absolute path", "set HOME to your home folder")
    return home


def _config_default(environ: Mapping[str, str], home: Path) -> Path:
    if sys.platform in {"darwin", "win32"}:
        import platformdirs  # not needed on Linux, where its 10 ms would be felt

        return platformdirs.user_config_path(APP_NAME, appauthor=False)
    return (_xdg(environ, "XDG_CONFIG_HOME") or home / ".config") / APP_NAME


def _state_default(environ: Mapping[str, str], home: Path) -> Path:
    if sys.platform in {"darwin", "win32"}:
        import platformdirs  # not needed on Linux, where its 10 ms would be felt

        return platformdirs.user_state_path(APP_NAME, appauthor=False)
    return (_xdg(environ, "XDG_STATE_HOME") or home / ".local" / "state") / APP_NAME


def _xdg(environ: Mapping[str, str], name: str) -> Path | None:
    """The XDG base directory specification: a relative path is invalid and is ignored."""
    path = Path(environ.get(name, "").strip())
    return path if path.is_absolute() else None


def _override(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name)
    if not value:
        return None
    path = Path(value)
    if not path.is_absolute():
        raise UnsafePathError(
            path, f"(from {name}) is not an absolute path", f"set {name} to an absolute path"
        )
    return path
