"""Finds programs on Windows as its users mean them, and refuses arguments that cmd.exe would execute. Pure.

CreateProcess looks into the current folder, which is a project's, before the PATH, and finds no `.cmd` files
such as npx. It starts those by cmd.exe, which reads the arguments once more in its own way: `"&calc` ends the
quotes and starts a program ("BatBadBut"). No quoting is right for every batch file, so such arguments are
refused.
"""

from __future__ import annotations

import ntpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_EXTENSIONS: Final = ".COM;.EXE;.BAT;.CMD"
"""What Windows has for PATHEXT, where the variable is missing."""
_BATCH: Final = (".cmd", ".bat")
_READ_BY_CMD: Final = re.compile(r'["%!^&|<>\r\n]')


def find_program(
    name: str, environ: Mapping[str, str], is_file: Callable[[str], bool] = ntpath.isfile
) -> str | None:
    """The path of a program: as it is if it has a folder, else from the absolute folders of the PATH.

    Args:
        environ: the child's variables; Windows does not tell capital letters in their names.
        is_file: whether there is a file at a path.

    Returns:
        None if it is in no folder of the PATH.
    """
    if ntpath.basename(name) != name:
        return name
    variables = {key.upper(): value for key, value in environ.items()}
    extensions = [entry for entry in variables.get("PATHEXT", _EXTENSIONS).split(";") if entry]
    has_extension = name.lower().endswith(tuple(entry.lower() for entry in extensions))
    for folder in variables.get("PATH", "").split(";"):
        if not ntpath.isabs(folder.strip('"')):
            continue  # it would be below a project
        for extension in ["", *extensions] if has_extension else extensions:
            path = ntpath.join(folder.strip('"'), name + extension)
            if is_file(path):
                return path
    return None


def batch_refusal(argv: Sequence[str]) -> str | None:
    """Why a command must not be started, in words that quote nothing of it; None if it may be.

    Args:
        argv: the program's path and its arguments.
    """
    if not argv[0].rstrip(" .").lower().endswith(_BATCH):
        return None
    for number, argument in enumerate(argv):
        if _READ_BY_CMD.search(argument):
            place = f"argument {number}" if number else "its path"
            return (
                f'{place} has one of the characters " % ! ^ & | < > or a line break, which cmd.exe reads '
                "in its own way; "
                "name the program that the batch file starts, with its script"
            )
    return None
