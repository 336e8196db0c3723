"""Says which of the user's files a fenced language server may not read: answers could repeat them. Blocks.

A project leads servers to files by more than links: C++ embeds any file, settings name schemas and folders of
modules. The hidden files of a home hold keys, tokens and histories, so none can be read, but for programs,
libraries and what version managers and the server itself need to start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.library_folders import library_folders
from workspace_server.processes.confinement import LAUNCHER

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
    ours = (Path(LAUNCHER).parents[2], Path(sys.prefix), Path(sys.base_prefix))
    libraries = library_folders(environ, [Path(word).name for word in words], ())
    return (settings, *below, *around, *ours, *libraries)


def _around(programs: Path) -> Iterator[Path]:
    yield programs
    yield from (programs.parent / name for name in _BESIDE_PROGRAMS)
