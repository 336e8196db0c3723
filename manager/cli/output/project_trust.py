"""Finds what of the current folder's project waits for trust, as its files are now. Needs no server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

LIMIT_S: Final = 5.0
"""Longest time to look."""
_FILES: Final = (
    ".lm-tools-bridge", ".mcp.json", ".vscode/mcp.json", ".vscode/settings.json", ".cursor/mcp.json",
)  # fmt: skip
_SHOWN: Final = 5


class ProjectTrust(NamedTuple):
    """The project's root, the names of what waits for trust, and the command to review it."""

    root: str
    names: tuple[str, ...]
    command: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        names = ", ".join(self.names[:_SHOWN])
        more = len(self.names) - _SHOWN
        summary = f"{names} and {more} more" if more > 0 else names
        return f"{self.root}: waiting for your trust: {summary}; review with: {self.command}"


def may_wait() -> bool:
    """Whether the current folder, or one above it within the home folder, has files that may need trust."""
    return any(os.path.lexists(f"{folder}/{name}") for folder in _folders() for name in _FILES)


def project_trust() -> ProjectTrust | None:
    """What waits for trust in the project of the current folder; None if unknown. Starts nothing of it."""
    if not may_wait():
        return None
    # slow to load, and rarely needed
    from lm_tools_bridge.terminal.command_line import Failure
    from manager.cli.workspace_command import answer_of, root_of

    try:
        root = root_of(None)
    except Failure:
        return None
    answer = answer_of("pending", root, limit_s=LIMIT_S)
    names, command = (answer or {}).get("pending"), (answer or {}).get("command")
    if not isinstance(names, list) or not isinstance(command, str):
        return None
    return ProjectTrust(root, tuple(map(str, names)), command)


def _folders() -> Iterator[str]:
    try:
        folder = os.getcwd()  # noqa: PTH109  this module is loaded by the fast path
    except OSError:
        return
    home = os.path.expanduser("~")  # noqa: PTH111  the same
    while folder not in (home, os.sep, ""):
        yield folder
        folder = os.path.dirname(folder)  # noqa: PTH120  the same
