"""Finds a program on PATH, but never one inside the workspace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from workspace_server.workspace import Workspace


def find_program(name: str, workspace: Workspace, environ: Mapping[str, str], *more: Path) -> str | None:
    """The absolute path of a program on PATH, or in one of `more` folders; None if there is none. Blocks.

    A program inside the workspace is never used, even if it is on PATH, because it is not trusted.
    """
    for place in [*environ.get("PATH", "").split(os.pathsep), *map(str, more)]:
        if not Path(place).is_absolute():
            continue
        program = shutil.which(name, path=place)
        if program and not any(
            workspace.contains(path.resolve()) for path in (Path(program), Path(program).parent)
        ):
            return program
    return None
