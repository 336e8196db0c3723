"""Finds the project around a folder by its marks, nearly as the manager does for its clients."""

from __future__ import annotations

from pathlib import Path

from lm_tools_bridge.machine.marked_folder import marks_of
from lm_tools_bridge.machine.project_marks import STRONG


def project_folder(folder: Path) -> Path:
    """The nearest folder upward with a project mark, else the nearest with `.vscode`, else the folder itself.

    Never the home folder nor the root of the tree. Blocks as long as the disk does. Unlike the manager, the
    agent does not know which roots were opened before; so what it reads there needs the trust in that root.
    """
    real, home = folder.resolve(), Path.home().resolve()
    weak: Path | None = None
    for step in (step for step in (real, *real.parents)[:-1] if step != home):
        marks = marks_of(step)
        if marks & STRONG:
            return step
        if marks and weak is None:
            weak = step
    return weak or real
