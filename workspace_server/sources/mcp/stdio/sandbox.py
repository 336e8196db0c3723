"""Holds the processes of a stdio server to its sandbox, and tells what that refused.

The server reads what the user can read, but for what its rules exclude. It writes to the project, to a
temporary folder and to caches of its own; in the project's `.git`, which names programs that git runs, it
writes nothing. The sockets of the user's session are hidden, as the programs behind them run what they are
asked to. A sandbox that this system cannot hold in full is a reason not to start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine.own_children import MAX_FILE_BYTES
from lm_tools_bridge.machine.private_folder import PrivateFolder, temporary_folder
from lm_tools_bridge.text.printable import operand
from workspace_server.config.model import Sandbox
from workspace_server.processes import tool_caches
from workspace_server.processes.child_process import ChildStartError, Command
from workspace_server.processes.confinement import Confinement, available_layers

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  allowed, not used
_SESSION: Final = Path("/run/user")
"""Where systemd, D-Bus and key rings of logged-in users listen."""
_GIT: Final = ".git"
_REFUSAL: Final = re.compile(r"EACCES|EROFS|[Pp]ermission denied|[Rr]ead-only file system")
# absolute paths only: not the rest of an address, nor of a path that is relative to something
_PATH: Final = re.compile(r"""(?<![\w./:-])/[^\s'"`:,;)\]]+""")
# A server that repeats itself refuses the same path; more than a few would fill the list of servers.
_MOST_REFUSED: Final = 5


class SandboxError(ChildStartError):
    """The sandbox cannot be held, so the server must not start. The message says what to do."""


class ServerSandbox:
    """The sandbox of one server's processes.

    Args:
        rules: what it may do.
        root: the workspace's folder.
        namespace: the server's.
    """

    def __init__(self, rules: Sandbox, root: Path, namespace: str) -> None:
        self._rules = rules
        self._root = Path(os.path.realpath(root))
        self._namespace = namespace
        self._temporary: PrivateFolder | None = None
        self._writable: tuple[Path, ...] = ()
        self.refused: list[str] = []
        """Paths that the server said it could not write, in the order in which it said so."""

    def around(self, command: Command) -> Command:
        """The command in the sandbox. Blocks.

        Raises:
            SandboxError: this system cannot hold it, or its folders cannot be made.
        """
        try:
            temporary, caches = self._folders(command)
        except OSError as error:
            text = f"the folders of its sandbox cannot be made: {error.strerror or error}"
            step = "make room on the disk, and see that ~/.cache is yours"
            raise SandboxError(f"{text}; {step}") from None
        self._writable = self._places(temporary, caches)
        self._require_layers()
        fixed = self._fixed()
        limits = Confinement(
            read_write=self._writable,
            unread=self._unread(),
            pinned=self._pinned(fixed),
            fixed=fixed,
            rest_fixed=True,
            hidden=self._session_folders(command.env),
            offline=not self._rules.network,
            max_file_bytes=MAX_FILE_BYTES,  # by which our sockets know a confined process
        )
        # after the variables of the entry: caches that it names elsewhere could not be written
        env = {**command.env, **tool_caches.cache_variables(caches), "TMPDIR": str(temporary)}
        return replace(command, env=env, confinement=limits)

    def note(self, line: str) -> None:
        """Remember the path that a line of the server's standard error says was refused, if it does."""
        path = refused_path(line, self._writable) if len(self.refused) < _MOST_REFUSED else None
        if path is not None and path not in self.refused:
            self.refused.append(path)

    def explain(self) -> str:
        """What the server was refused and how to allow it, to be added to an error; empty if nothing was."""
        if not self.refused:
            return ""
        path, step = self.refused[0], allow_command(self._namespace, self.refused[0])
        return f"; its sandbox does not let it write {path}: to allow that, run: {step}"

    def close(self) -> None:
        """Remove the temporary folder. Blocks. Idempotent."""
        if self._temporary is not None:
            self._temporary.close()

    def _folders(self, command: Command) -> tuple[Path, Path]:
        self._temporary = self._temporary or temporary_folder()
        self._temporary.open()
        owner, environ = f"{self._root}\0{self._namespace}", command.env
        caches = tool_caches.cache_folder("servers", owner, environ)
        if caches is None or not Path(environ["HOME"]).is_dir():
            caches = self._temporary.path / "caches"
        tool_caches.make_cache(caches)
        return Path(os.path.realpath(self._temporary.path)), caches

    def _places(self, temporary: Path, caches: Path) -> tuple[Path, ...]:
        # links of the user are followed now; what they lead to later was never allowed
        further = (Path(os.path.realpath(path)) for path in self._rules.write)
        return (self._root, temporary, caches, _SHARED_MEMORY, *further)

    def _unread(self) -> tuple[Path, ...]:
        unread = tuple(Path(os.path.realpath(path)) for path in self._rules.unread)
        for path in unread:
            if self._is_writable(path):
                text = f"it may not read {path}, but write to a folder around it, which cannot be held"
                raise SandboxError(f"{text}; take that path out of its sandbox, or move it")
        return unread

    def _fixed(self) -> tuple[Path, ...]:
        """What it may not write although it lies in a place that it may."""
        git = self._root / _GIT
        # the first place is the project itself, which always holds its `.git`
        is_free = any(git.is_relative_to(place) for place in self._writable[1:])
        paths = [Path(path) for path in self._rules.fixed]
        paths += [git] if os.path.lexists(git) and not is_free else []
        for path in paths:
            if path.is_symlink() or not path.exists():
                what = "is a link" if path.is_symlink() else "does not exist"
                step = (
                    f"to run it without a sandbox, run: {off_command(self._namespace)}"
                    if path == git
                    else "correct deny_write in its entry"
                )
                raise SandboxError(f"it may not write {path}, which cannot be held as that {what}; {step}")
        return tuple(Path(os.path.realpath(path)) for path in paths)

    def _pinned(self, fixed: tuple[Path, ...]) -> tuple[Path, ...]:
        """Folders around these: one that was moved away would leave its place to another, outermost first."""
        around = {parent for path in fixed for parent in path.parents if self._is_inside(parent)}
        return tuple(sorted(around, key=lambda parent: len(parent.parts)))

    def _is_writable(self, path: Path) -> bool:
        return any(path.is_relative_to(place) for place in self._writable)

    def _is_inside(self, folder: Path) -> bool:
        return self._is_writable(folder) and folder not in self._writable

    def _require_layers(self) -> None:
        layers = available_layers()
        lacks = ""
        if not any(name.startswith("landlock") for name in layers):
            lacks = "Landlock"
        elif "fixed-files" not in layers:
            lacks = "namespaces, which it allows the superuser only"
        if lacks:
            text = f"this system cannot hold its sandbox: that takes {lacks}"
            raise SandboxError(f"{text}; to run it without, run: {off_command(self._namespace)}")

    def _session_folders(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """The folders with the sockets of the user's session; none around a place that it may write."""
        own = environ.get("XDG_RUNTIME_DIR")
        folders = (_SESSION, *([Path(own)] if own else []))
        real = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders)
        return tuple(
            folder
            for folder in real
            if folder.is_dir() and not any(place.is_relative_to(folder) for place in self._writable)
        )


def refused_path(line: str, writable: Iterable[Path]) -> str | None:
    """The path outside of the writable places that a line says was refused; None if it says no such thing."""
    if _REFUSAL.search(line) is None:
        return None
    places = tuple(writable)  # a line may name a path that was written and another one that was refused
    for match in _PATH.finditer(line):
        path = match[0].rstrip(".")
        if not any(Path(path).is_relative_to(place) for place in places):
            return path
    return None


def allow_command(namespace: str, path: str) -> str:
    """The command by which the user lets a server write to a path."""
    return f"lmtb servers allow-write {operand(namespace)} {operand(path)}"


def off_command(namespace: str) -> str:
    """The command by which the user takes a server out of its sandbox."""
    return f"lmtb servers sandbox {operand(namespace)} off"
