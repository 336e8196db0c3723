"""Finds the project around a folder by its marks, as the manager does for a client that works there."""

from __future__ import annotations

from pathlib import Path

from host.marked_folder import marks_of
from host.project_marks import STRONG


def project_folder(folder: Path) -> Path:
    """The nearest folder upward with a project mark, else the nearest with `.vscode`, else the folder itself.

    Never the home folder nor the root of the tree. Blocks as long as the disk does. Unlike the manager, the
    agent does not know which roots were opened before; so what it reads there needs the trust in that root.
    """
    real, home = folder.resolve(), Path.home().resolve()
    steps = [step for step in (real, *real.parents)[:-1] if step != home]
    marked = [(step, marks) for step in steps if (marks := marks_of(step))]
    strong = [step for step, marks in marked if marks & STRONG]
    return next(iter([*strong, *(step for step, _ in marked)]), real)
