"""Finds the folders of installed libraries, and notices that libraries were installed or removed.

Only what the user's environment names counts: a project could name any folder as one of libraries. Folders of
libraries are too large to watch, so the folders that list the packages are looked at.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sysconfig
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import LanguageServers, ServerOutdated
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from workspace_server.files.file_gate import FileGate
from workspace_server.files.single_flight import LocalFiles

LOOK_AGAIN_S: Final = 60.0
"""A toolchain that is installed meanwhile is known after this time; a look takes about a millisecond."""
MAX_FOUND: Final = 500
"""Folders of one pattern: a home may hold dozens of toolchains, not thousands."""
_SYSTEM: Final = (
    *("/usr/include", "/usr/local/include", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/go/src"),
    *("/usr/share/go*/src", "/usr/share/lua", "/usr/local/share/lua", "/usr/share/nodejs"),
    *("/opt/homebrew/include", "/opt/homebrew/lib", "/opt/homebrew/Cellar", "/nix/store"),
    *("/Library/Developer/CommandLineTools", "/Applications/Xcode.app/Contents/Developer"),
)
_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "CARGO_HOME": ("registry/src", "git/checkouts"),
    "RUSTUP_HOME": ("toolchains/*/lib/rustlib",),
    "GOROOT": ("src",),
    "GOPATH": ("pkg/mod",),
    "GOMODCACHE": ("",),
    "VIRTUAL_ENV": ("lib/python3*", "lib64/python3*"),
    "CONDA_PREFIX": ("lib/python3*", "include"),
    "PYENV_ROOT": ("versions/*/lib/python3*",),
    "UV_PYTHON_INSTALL_DIR": ("*/lib/python3*",),
    "XDG_DATA_HOME": ("uv/python/*/lib/python3*",),
    "XDG_CACHE_HOME": ("typescript", "ty/vendored"),
    **dict.fromkeys(("PYTHONPATH", "NODE_PATH", "CPATH"), ("",)),
    **dict.fromkeys(("C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"), ("",)),
}
"""Variables that name folders, and what of these holds libraries."""
_DEFAULTS: Final[Mapping[str, str]] = {
    "CARGO_HOME": ".cargo",
    "RUSTUP_HOME": ".rustup",
    "GOPATH": "go",
    "PYENV_ROOT": ".pyenv",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}
"""What programs take if a variable is not set, below the home."""
_PROGRAMS: Final = ("python3", "python", "go", "zig", "rustc", "node", "clang")
_BESIDE_ALL: Final = ("../lib/python3*", "../lib/clang", "../lib/rustlib", "../lib/node_modules")
"""Where programs have their libraries, seen from the folder of the program."""
_BESIDE: Final[Mapping[str, str]] = {"go": "../src", "zig": "lib", "lua-language-server": "../meta"}
"""The same for single ones: elsewhere these names mean nothing."""


class LanguageFiles:
    """The files that answers about code may show: the workspace's, and those of installed libraries.

    Args:
        folders: of the workspace, link-free.
        servers: its language servers, which bring libraries of their own.
        environment: the user's variables.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        servers: LanguageServers,
        environment: Callable[[], Awaitable[Mapping[str, str]]],
    ) -> None:
        self._folders = tuple(folders)
        self._servers = servers
        self._environment = environment
        self._gate = FileGate(folders)
        self._look_at = 0.0

    async def gate(self) -> FileGate:
        """What is open now; libraries are looked for anew from time to time."""
        now = time.monotonic()
        if now >= self._look_at:
            environ = await self._environment()
            self._gate = await asyncio.to_thread(self._look, environ)
            self._look_at = now + LOOK_AGAIN_S
        return self._gate

    def _look(self, environ: Mapping[str, str]) -> FileGate:
        commands = (
            command[0] for kind in self._servers.known_kinds() for command in kind.commands if command
        )
        reads = (folder for kind in self._servers.known_kinds() for folder in kind.reads)
        real = (Path(os.path.realpath(folder)) for folder in reads)
        libraries = library_folders(environ, {*_PROGRAMS, *commands}, self._folders)
        return FileGate(self._folders, (*libraries, *real))


def library_folders(
    environ: Mapping[str, str], programs: Iterable[str], project: Sequence[Path]
) -> tuple[Path, ...]:
    """The folders of libraries, link-free. Blocks.

    Args:
        environ: the user's variables.
        programs: those that bring libraries, by name.
        project: the workspace's folders; programs that lie in them name nothing.
    """
    home = environ.get("HOME") or str(Path.home())
    patterns = [*_SYSTEM, f"{home}/.local/lib/python3*", *_variable_patterns(environ, home)]
    patterns += _beside(programs, environ.get("PATH", ""), project)
    real = (Path(os.path.realpath(folder)) for pattern in patterns for folder in _folders(pattern))
    # a variable that names the home, or a folder around it, names no libraries
    holds_home = {*Path(home).parents, Path(home), *Path(os.path.realpath(home)).parents}
    holds_home.add(Path(os.path.realpath(home)))
    return tuple(dict.fromkeys(folder for folder in real if folder not in holds_home))


def _variable_patterns(environ: Mapping[str, str], home: str) -> Iterator[str]:
    """The patterns that variables name."""
    for name, below in _VARIABLES.items():
        default = f"{home}/{_DEFAULTS[name]}" if name in _DEFAULTS else ""
        for folder in (environ.get(name) or default).split(os.pathsep):
            if os.path.isabs(folder):  # noqa: PTH117  a text
                yield from (f"{folder.rstrip('/')}/{part}" for part in below)


def _beside(programs: Iterable[str], search_path: str, project: Sequence[Path]) -> Iterator[str]:
    """The patterns around programs: their package of npm, or the folders beside theirs."""
    yield sysconfig.get_path("purelib")  # servers that are installed beside this program
    parts = [*search_path.split(os.pathsep), sysconfig.get_path("scripts")]
    path = os.pathsep.join(part for part in parts if os.path.isabs(part))  # noqa: PTH117  texts
    for name in programs:
        program = shutil.which(name, path=path)
        real = None if program is None else Path(os.path.realpath(program))
        if real is None or any(real.is_relative_to(folder) for folder in project):
            continue
        if "node_modules" in real.parts:
            yield str(Path(*real.parts[: real.parts.index("node_modules") + 1]))
        beside = (*_BESIDE_ALL, *([_BESIDE[name]] if name in _BESIDE else ()))
        yield from (os.path.normpath(f"{real.parent}/{part}") for part in beside)


def _folders(pattern: str) -> Sequence[Path]:
    """The folders of a pattern. One without a wildcard need not exist yet: servers unpack their libraries."""
    if "*" not in pattern:
        return [Path(pattern)]
    folders = (folder for folder in Path("/").glob(pattern.lstrip("/")) if folder.is_dir())
    return [folder for _, folder in zip(range(MAX_FOUND), folders, strict=False)]


State = Mapping[str, tuple[int, int]]
YOUNG_S: Final = 5.0
"""A server that is younger is not replaced: an installation takes a while, and changes the folder often."""


class InstalledLibraries:
    """What a server read of libraries at its start, as far as times of folders and files tell.

    Args:
        specification: its kind, with the patterns of these paths.
        folders: of the workspace, absolute and link-free.
        now: monotonic seconds, as everywhere here.
    """

    def __init__(self, specification: ServerSpecification, folders: Sequence[Path], now: float) -> None:
        self._name = specification.name
        self._patterns = specification.libraries
        self._folders = folders
        self._files = LocalFiles(folders)
        self._began = now
        self._state: State | None = None

    async def look(self, now: float) -> float:
        """Look; the first time, take what is there for what the server reads.

        Returns:
            For how many seconds the server is too young to be replaced; 0 if it need not be.

        Raises:
            ServerOutdated: libraries changed since, and the server is to be replaced.
        """
        if not self._patterns:
            return 0.0
        state = await self._files.run(self._folders, _state, self._folders, self._patterns)
        if self._state is None:
            self._state = state
        if state == self._state:
            return 0.0
        if now - self._began < YOUNG_S:
            return YOUNG_S - (now - self._began)
        raise ServerOutdated(f"{self._name} is started again, because libraries of the project changed")


def _state(folders: Sequence[Path], patterns: Sequence[str]) -> State:
    """Times and inodes of what is there. Blocks."""
    states = {}
    for folder in folders:
        for pattern in patterns:
            for path in folder.glob(pattern) if "*" in pattern else (folder / pattern,):
                try:
                    status = path.stat()
                except OSError:
                    continue
                states[str(path)] = (status.st_mtime_ns, status.st_ino)
    return states
