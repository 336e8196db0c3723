"""Fences a server that runs without the user's trust: no programs of the project, no writing but of caches.

The kind of the server says why it executes nothing of a project; the fence is for what the kind misses.
On every system the server starts outside of the project, because shims of version managers run what files
such as `.tool-versions` name in the folder that they start in, and its PATH does not lead into the project.
Where the kernel has Landlock, it can execute no file of the project, write none but those of its caches, and
connect by TCP to nobody, and reads no private file of the user that it can do without. An interpreter can
still read a script of the project as input; that none does so, the kinds promise.

The user's private files cannot be read, because answers could repeat them. A project leads servers to files
by more than links: C++ embeds any file, settings name schemas and folders of modules. The hidden files of a
home hold keys, tokens and histories, so none can be read, but for programs, libraries and what version
managers and the server itself need to start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.kinds.programs import path_outside
from lm_tools_bridge.code_intelligence.library_folders import library_folders
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.own_children import MAX_FILE_BYTES
from lm_tools_bridge.machine.own_distribution import LANGUAGE_SERVERS, data_folder
from lm_tools_bridge.machine.private_folder import PrivateFolder, temporary_folder
from workspace_server.processes.child_process import Command
from workspace_server.processes.confinement import LAUNCHER, Confinement

_BASE_FOLDERS: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
"""Variables that name folders for private files, which need not be hidden."""
_RUNTIME: Final = Path("/run/user")
"""Folders of logged-in users, where some programs keep credentials until the machine ends."""
_BESIDE_PROGRAMS: Final = (
    *("lib", "lib64", "libexec", "include", "pyvenv.cfg"),
    *("install", "installs", "plugins", "toolchains", "tools", "versions"),  # of version managers
)
"""What programs need of the folder that holds theirs."""
_VERSIONS: Final = (".tool-versions", ".node-version", ".nvmrc", ".python-version", ".config/mise", ".asdfrc")
"""Where the shims of version managers read which version to start."""
_SHARED: Final = (
    *(".local/include", ".local/share/uv/python", ".local/share/virtualenvs", ".cache/uv"),
    *(".cache/pypoetry", ".cache/bazel", ".cache/node-gyp", ".cache/vcpkg", ".cache/CPM", ".conan/data"),
    *(".conan2/p", ".espressif", ".platformio/packages", ".arduino15/packages", ".vcpkg"),
)
"""Where builds and package managers keep what they share between projects, below the home."""
_STYLE: Final = (".clang-format", ".clang-tidy", ".clangd", ".editorconfig")
"""Settings that servers look for in all parents of a project."""


def private_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The user's private files and folders, link-free: hidden ones of the home, and where links there lead.

    Args:
        environ: the variables of the server.
    """
    home = Path(os.path.realpath(environ.get("HOME") or Path.home()))
    places = [_RUNTIME, *(Path(folder) for name in _BASE_FOLDERS if (folder := environ.get(name)))]
    with suppress(OSError), os.scandir(home) as entries:
        places += [home / entry.name for entry in entries if entry.name.startswith(".")]
    real = (Path(os.path.realpath(place)) for place in places)
    return tuple(dict.fromkeys(place for place in real if not home.is_relative_to(place)))


def needed_files(environ: Mapping[str, str], command: Iterable[str], name: str) -> tuple[Path, ...]:
    """What a server may read of the private files.

    Args:
        environ: its variables.
        command: its command line.
        name: its kind, whose settings it reads.
    """
    home = Path(environ.get("HOME") or Path.home())
    settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config", name)
    below = (home / path for path in (*_VERSIONS, *_SHARED, *_STYLE))
    words = [word for word in command if os.path.isabs(word)]  # noqa: PTH117  texts
    programs = [Path(os.path.realpath(word)).parent for word in words]
    programs += [Path(part) for part in environ.get("PATH", "").split(os.pathsep) if part]
    around = (path for folder in programs if not home.is_relative_to(folder) for path in _around(folder))
    installed = data_folder(home) / LANGUAGE_SERVERS / "servers"
    ours = (Path(LAUNCHER).parents[2], Path(sys.prefix), Path(sys.base_prefix), installed)
    libraries = library_folders(environ, [Path(word).name for word in words], ())
    return (settings, *below, *around, *ours, *libraries)


def _around(programs: Path) -> Iterator[Path]:
    yield programs
    yield from (programs.parent / name for name in _BESIDE_PROGRAMS)


_BUILD_FOLDERS: Final = ("", "build")
"""Where clangd looks for `compile_commands.json` below a folder."""


class Fence:
    """The fence of one process. Its methods block."""

    def __init__(self) -> None:
        self._temporary: PrivateFolder | None = None

    def around(self, launch: Launch) -> Command:
        """The command behind the fence. Call `remove` when its process has ended.

        Raises:
            OSError: there is no folder for temporary files.
        """
        self._temporary = temporary_folder()
        self._temporary.open()
        temporary, command = self._temporary.path, launch.command
        env = {**command.env, "PATH": path_outside(command.env.get("PATH", ""), launch.folders)}
        limits = Confinement(
            read_only=(
                *launch.folders,
                *launch.specification.reads,
                *needed_files(env, command.argv, launch.specification.name),
            ),
            unread=private_files(env),
            caches=(Path(os.path.realpath(temporary)), *_caches(launch)),
            unexecuted=launch.folders,
            network=False,
            max_file_bytes=MAX_FILE_BYTES,  # by which our sockets know a confined process
        )
        return Command(command.argv, {**env, "TMPDIR": str(temporary)}, "/", limits)

    def remove(self) -> None:
        """Remove the folder of temporary files. Idempotent."""
        if self._temporary is not None:
            self._temporary.close()


def _caches(launch: Launch) -> list[Path]:
    """The folders that keep what the server computed, made where they are missing."""
    kind, caches = launch.specification, []
    if home := launch.command.env.get("HOME"):
        for cache in (Path(home, ".cache", name) for name in kind.caches):
            with suppress(OSError):
                cache.mkdir(parents=True, exist_ok=True)
                caches.append(Path(os.path.realpath(cache)))
    if kind.project_cache:
        caches += [folder / kind.project_cache for folder in launch.folders if _has_cache(folder, launch)]
    return caches


def _has_cache(folder: Path, launch: Launch) -> bool:
    """Whether a folder of the project has a place for the server's cache; made as the server would."""
    kind = launch.specification
    files = [folder / below / name for below in _BUILD_FOLDERS for name in kind.project_files]
    return any(file.is_file() for file in files) and _make_inside(folder, kind.project_cache)


def _make_inside(folder: Path, below: str) -> bool:
    """Make a folder inside another one; False if a link is in its way, which may lead anywhere."""
    flags = file_calls.READ_FOLDER
    try:
        with ExitStack() as stack:
            descriptor = os.open(folder, flags)
            stack.callback(os.close, descriptor)
            for part in Path(below).parts:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
                descriptor = os.open(part, flags, dir_fd=descriptor)
                stack.callback(os.close, descriptor)
    except OSError:
        return False
    return True
