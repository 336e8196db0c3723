"""Finds the files and folders of one user's manager.

Short command line verbs import it, so it uses the standard library only. On Linux the XDG rules are written
out here: platformdirs costs 10 ms and reads the process environment instead of the mapping it is given (a
test checks that both agree). Elsewhere platformdirs decides. Nothing is created here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from lm_tools_bridge.machine.files.private_files import UnsafePathError
from manager.configuration.runtime_folder import (
    APP_NAME,
    BASE_FOLDERS,
    LOCK,
    control_socket_in,
    digest_of,
    fixed_folder,
    served_folder,
    session_folders,
    with_base_folders,
)


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
        """The manager's own log; `manager/logs/log_rotation.py` limits it."""
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
