"""Shows changes of files as a unified diff of bounded size. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.code_intelligence.tools.editing.change import FileChange
from workspace_server.workspace import Workspace

MAX_CHARACTERS: Final = 60_000
MAX_LINES: Final = 20_000
"""Of one file: comparing takes time that grows with their square."""
MAX_WIDTH: Final = 500
_LINES: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Diff:
    """The text, and whether a part of it is left out."""

    text: str
    truncated: bool


def unified(changes: Sequence[FileChange], workspace: Workspace) -> Diff:
    """The diff of all changes."""
    kept: list[str] = []
    size = 0
    for line in (line for change in changes for line in _of_file(change, workspace)):
        shown = line if len(line) <= MAX_WIDTH else line[:MAX_WIDTH] + "…"
        size += len(shown) + 1
        if size > MAX_CHARACTERS:
            return Diff("\n".join([*kept, "… the diff is longer"]), truncated=True)
        kept.append(shown)
    return Diff("\n".join(kept), truncated=False)


def _of_file(change: FileChange, workspace: Workspace) -> Iterator[str]:
    name = workspace.workspace_path(change.path) or change.path.as_posix()
    old, new = _LINES.split(change.old_text), _LINES.split(change.new_text)
    before = "/dev/null" if change.before is None else f"a/{name}"
    after = "/dev/null" if change.after is None else f"b/{name}"
    if len(old) + len(new) > MAX_LINES:
        yield from (
            f"--- {before}",
            f"+++ {after}",
            f"@@ {len(old)} lines become {len(new)}; not compared @@",
        )
        return
    found = list(difflib.unified_diff(old, new, before, after, lineterm=""))
    yield from found or (f"--- {before}", f"+++ {after}")
