"""Fences a server that runs without the user's trust: no programs of the project, no writing but of caches.

The kind of the server says why it executes nothing of a project; the fence is for what the kind misses.
On every system the server starts outside of the project, because shims of version managers run what files
such as `.tool-versions` name in the folder that they start in, and its PATH does not lead into the project.
Where the kernel has Landlock, it can execute no file of the project, write none but those of its caches, and
connect by TCP to nobody, and reads no private file of the user that it can do without. An interpreter can
still read a script of the project as input; that none does so, the kinds promise.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.kinds.programs import path_outside
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.server_process.private_files import needed_files, private_files
from lm_tools_bridge.machine.own_children import MAX_FILE_BYTES
from lm_tools_bridge.machine.private_folder import PrivateFolder, temporary_folder
from workspace_server.processes.child_process import Command
from workspace_server.processes.confinement import Confinement

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
            read_only=(*launch.folders, *needed_files(env, command.argv, launch.specification.name)),
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
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
