"""Tells what a change did to the errors of the project, and takes a change back."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic
from lm_tools_bridge.code_intelligence.tools.editing.applying import ApplyFailed, apply_changes
from lm_tools_bridge.code_intelligence.tools.editing.change import FileChange
from lm_tools_bridge.code_intelligence.tools.error_reports import ErrorReport, ask_errors
from lm_tools_bridge.code_intelligence.tools.texts import Texts, cut
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from workspace_server.results import well_formed
from workspace_server.tool import ToolError

MAX_LINES: Final = 10
"""New errors that an answer names: whether a rename was right shows at the first ones."""
LEAST_CHECK_S: Final = 2.0
"""A check gets so long whatever the call waits: without it nobody knows whether the change was right."""
MAX_CHECK_S: Final = 10.0
"""Longest check: the change is done, and its answer should come."""
MAX_UNDO: Final = 32 * 1024 * 1024
"""Bytes of files that are kept to take a change back."""


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """The errors before and after a change, of the servers that answered both times.

    Attributes:
        before, after: their numbers.
        new: those that were not there before, whatever name they mention.
        providers: who said so; empty if nobody did.
    """

    before: int
    after: int
    new: Sequence[Diagnostic]
    providers: Sequence[str]

    @property
    def is_worse(self) -> bool:
        """Whether there are more errors than before."""
        return self.after > self.before

    def lines(self, workplace: Workplace) -> list[str]:
        """For a text."""
        if not self.providers:
            return ["errors: not checked, because no server that checks these files answered in time"]
        head = f"errors: {self.before} before, {self.after} after ({', '.join(self.providers)})"
        new = [f"{workplace.shown_path(each.path)} {cut(each.text())}" for each in self.new[:MAX_LINES]]
        rest = len(self.new) - len(new)
        more = [f"… and {rest} more: see lm_getDiagnostics"] if rest else []
        return [head, *map(well_formed, new), *more]

    def structured(self, workplace: Workplace) -> dict[str, Any]:
        """As in `structuredContent`."""
        return {
            "before": self.before,
            "after": self.after,
            "new": [well_formed(line) for line in self.lines(workplace)[1:]] if self.providers else [],
            "providers": list(self.providers),
        }


async def count_errors(
    workplace: Workplace, paths: Sequence[Path], waiting: Waiting, texts: Texts
) -> list[ErrorReport]:
    """What the servers that run say of the errors now; none of it takes longer than `MAX_CHECK_S`."""
    seconds = min(max(waiting.left_s, LEAST_CHECK_S), MAX_CHECK_S)
    servers = await workplace.servers.running_for("diagnostics")
    try:
        async with asyncio.timeout(seconds + LEAST_CHECK_S):
            return await ask_errors(workplace, servers, paths, seconds, texts)
    except TimeoutError:
        return []


def compared_errors(
    before: Iterable[ErrorReport], after: Iterable[ErrorReport], old: str, new: str
) -> ErrorCount:
    """What a rename from `old` to `new` did to the errors. Pure."""
    first, second = ({report.provider: report for report in reports} for reports in (before, after))
    both = [name for name in first if name in second]
    errors_before = [error for name in both for error in first[name].errors]
    errors_after = [error for name in both for error in second[name].errors]
    word = re.compile(rf"\b{re.escape(old)}\b") if old else None

    def key(error: Diagnostic) -> tuple[Path, str | None, str | int | None, str]:
        message = error.message if word is None else word.sub(lambda _: new, error.message)
        return (error.path, error.source, error.code, message)

    former = Counter(map(key, errors_before))
    fresh = []
    for error in errors_after:
        if former[key(error)]:
            former[key(error)] -= 1
        else:
            fresh.append(error)
    return ErrorCount(len(errors_before), len(errors_after), fresh, both)


def keep_for_undo(workplace: Workplace, changes: Sequence[FileChange]) -> bool:
    """Keep a change that was applied, in place of the one before; whether it can be taken back."""
    size = sum(len(each.before or b"") + len(each.after or b"") for each in changes)
    workplace.undoable[:] = changes if size <= MAX_UNDO else []
    return bool(workplace.undoable)


def undo(workplace: Workplace, *, apply: bool) -> list[FileChange]:
    """Take the last change back if it is to be applied, and return what that changes. Blocks.

    Raises:
        ToolError: there is none, or a file changed since. No file was changed, or the message says so.
    """
    if not workplace.undoable:
        raise ToolError("no rename of this project is kept to be taken back. No file was changed")
    changes = [_reversed(change) for change in workplace.undoable]
    if not apply:  # such a call is not approved by anybody
        return changes
    try:
        apply_changes(changes)
    except ApplyFailed as refused:
        raise ToolError(f"the rename cannot be taken back: {refused}") from None
    workplace.undoable.clear()
    return changes


def _reversed(change: FileChange) -> FileChange:
    return FileChange(change.path, change.after, change.before, change.mode, change.new_text, change.old_text)


def undo_offer(arguments: Mapping[str, Any]) -> str:
    """How to take back what this call changed."""
    return f"undo: lm_renameSymbol with newName {arguments['newName']} and undo: true"
