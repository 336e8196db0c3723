"""Finds the files and folders of one user's manager.

Short command line verbs import it, so it uses the standard library only. On Linux the XDG rules are written
out here: platformdirs costs 10 ms and reads the process environment instead of the mapping it is given (a
test checks that both agree). Elsewhere platformdirs decides. Nothing is created or read here.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from host.files.private_files import UnsafePathError

APP_NAME = "lm-tools-bridge"
# sockaddr_un holds 104 bytes on macOS and 108 on Linux, terminator included.
MAX_SOCKET_PATH_BYTES = 100


class Paths(NamedTuple):
    """The absolute paths of one user's manager. None of them is created or checked by making this value.

    `control_socket` lies in `runtime_dir` unless its path would exceed 100 bytes. Then it lies in a folder
    named by a hash of `runtime_dir`: in the home folder, or, where that is too long as well, under /tmp. Both
    are private in the same way: the folder must pass `make_private(control_socket.parent)` before use, so a
    folder somebody else made first is refused, and /tmp's sticky bit keeps others from renaming ours away.
    """

    config_dir: Path
    state_dir: Path
    runtime_dir: Path
    control_socket: Path

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
        return self.runtime_dir / "manager.lock"

    @classmethod
    def of_user(cls, environ: Mapping[str, str] = os.environ) -> Paths:
        """Returns the paths of the user whose environment this is.

        `LMTB_CONFIG_DIR`, `LMTB_STATE_DIR` and `LMTB_RUNTIME_DIR` override one folder each. Without a usable
        XDG_RUNTIME_DIR the runtime folder is `<state_dir>/run`, never a shared temporary folder; one that
        belongs to somebody else (as after `su`) or that others may write to is not usable. Raises
        UnsafePathError for an override or HOME that is not absolute: it would mean another folder for every
        caller.
        """
        home = _home(environ)
        config_default, state_default = _defaults(environ, home)
        config_dir = _override(environ, "LMTB_CONFIG_DIR") or config_default
        state_dir = _override(environ, "LMTB_STATE_DIR") or state_default
        session = _session_runtime_dir(environ)
        runtime_dir = (
            _override(environ, "LMTB_RUNTIME_DIR")
            or (session / APP_NAME if session else None)
            or state_dir / "run"
        )
        return cls(config_dir, state_dir, runtime_dir, _control_socket(runtime_dir, home))


def _home(environ: Mapping[str, str]) -> Path:
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:  # nor does the user database know this user
        reason = "is not set, and the user database names no home folder"
        raise UnsafePathError(Path("HOME"), reason, "set HOME to your home folder") from error
    if not home.is_absolute():
        raise UnsafePathError(home, "(from HOME) is not an absolute path", "set HOME to your home folder")
    return home


def _defaults(environ: Mapping[str, str], home: Path) -> tuple[Path, Path]:
    if sys.platform in {"darwin", "win32"}:
        import platformdirs  # not needed on Linux, where its 10 ms would be felt

        return (
            platformdirs.user_config_path(APP_NAME, appauthor=False),
            platformdirs.user_state_path(APP_NAME, appauthor=False),
        )
    config = _xdg(environ, "XDG_CONFIG_HOME") or home / ".config"
    state = _xdg(environ, "XDG_STATE_HOME") or home / ".local" / "state"
    return config / APP_NAME, state / APP_NAME


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


def _session_runtime_dir(environ: Mapping[str, str]) -> Path | None:
    folder = _xdg(environ, "XDG_RUNTIME_DIR")
    if folder is None or sys.platform == "win32":
        return None
    try:
        status = folder.stat()
    except FileNotFoundError:
        return folder
    except OSError:
        return None
    ours = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if ours else None


def _control_socket(runtime_dir: Path, home: Path) -> Path:
    path = runtime_dir / "control.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES or sys.platform == "win32":
        return path
    import hashlib  # noqa: PLC0415 - 4 ms that only this rare case needs

    digest = hashlib.sha256(os.fsencode(runtime_dir)).hexdigest()[:12]
    in_home = home / f".lmtb-{digest}" / "control.sock"
    if len(os.fsencode(in_home)) <= MAX_SOCKET_PATH_BYTES:
        return in_home
    # A fixed name, not TMPDIR: command line and daemon must find the same folder in any environment.
    return Path("/tmp", f"lmtb-{os.geteuid()}-{digest}", "control.sock")  # noqa: S108 - see the class docstring
