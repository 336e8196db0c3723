"""Finds the pages of the documentation that come with the program, for messages that name one."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def page(name: str) -> str:
    """The path of a page, e.g. `clients/other.md`: beside this module if installed, else in the sources."""
    installed = _HERE / "docs"
    return str((installed if installed.is_dir() else _HERE.parent / "docs") / name)
