"""Plans, shows and applies the `WorkspaceEdit` of a server for a tool that changes files."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import PositionEncoding, Unavailable
from lm_tools_bridge.code_intelligence.tools import asking
from lm_tools_bridge.code_intelligence.tools.editing.applying import ApplyFailed, apply_changes
from lm_tools_bridge.code_intelligence.tools.editing.change import FileChange, Planner
from lm_tools_bridge.code_intelligence.tools.editing.file_content import Unchangeable
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.workspace_edits import EditRefused, read_workspace_edit
from workspace_server.results import well_formed
from workspace_server.tool import ToolError, ToolResult
from workspace_server.workspace import Workspace, absolute_text

INCOMPLETE: Final = frozenset({"indexing", "stale", "crashed"})
"""States in which an edit may miss places, so that it is shown but not applied."""
MAX_CHARACTERS: Final = 60_000
"""Some 1,500 lines, about as much as a model can check; the files have all of the change."""
MAX_LINKS: Final = 5
"""Links that an answer names."""
MAX_LINES: Final = 20_000
"""Of one file: comparing takes time that grows with their square."""
MAX_WIDTH: Final = 500
"""Characters of a line: longer ones are generated, or data."""
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a server wants to change.

    Attributes:
        title: first line of the text.
        edit: the `WorkspaceEdit`.
        encoding: the server's unit of positions.
        asked_ns: when the call began; files that changed since are not touched.
        freshness: how complete the edit is.
        unavailable: servers that do not run.
        about, head: more members, and lines of the text.
        caller_words: the words of the caller that are a part of the change.
        applied: is called with the changes after they were applied.
    """

    title: str
    edit: Any
    encoding: PositionEncoding
    asked_ns: int
    freshness: Freshness
    unavailable: Sequence[Unavailable]
    about: Mapping[str, Any]
    head: Sequence[str]
    caller_words: str = ""
    applied: Callable[[Sequence[FileChange]], object] = len


async def finish(workplace: Workplace, proposal: Proposal, texts: Texts, *, apply: bool) -> ToolResult:
    """Show the change, and apply it if wanted.

    Raises:
        ToolError: the change cannot be applied, or must not be. No file was changed, or the message says so.
    """
    return await asyncio.to_thread(_finish, workplace, proposal, texts, apply=apply)


def _finish(workplace: Workplace, proposal: Proposal, texts: Texts, *, apply: bool) -> ToolResult:
    operations = read_workspace_edit(proposal.edit)
    if isinstance(operations, EditRefused):
        raise ToolError(f"{operations.reason}. No file was changed")
    if apply and proposal.freshness.state in INCOMPLETE:
        raise ToolError(
            f"the change may miss places ({proposal.freshness.text()}). No file was changed; "
            "call again with a larger waitS, or with apply: false to see what is known",
            {"freshness": [proposal.freshness.structured()]},
        )
    copies = workplace.copies()
    operations = [operation for operation in operations if copies.around(operation.path) is None]
    try:
        planner = Planner(workplace.workspace, proposal.encoding, proposal.asked_ns, reads_links=not apply)
        changes = planner.plan(operations)
        _refuse_repetition(changes, texts, proposal.caller_words)
        if apply:
            apply_changes(changes)
            proposal.applied(changes)
    except (Unchangeable, ApplyFailed) as refused:
        raise ToolError(str(refused)) from None
    if links := planner.links:
        shown_links = ", ".join(map(workplace.shown_path, links[:MAX_LINKS]))
        note = f"not applied to links: {shown_links}"
        proposal = replace(proposal, about={**proposal.about, "note": note}, head=[*proposal.head, note])
    return _result(workplace, proposal, changes, applied=apply and bool(changes))


def _refuse_repetition(changes: Sequence[FileChange], texts: Texts, words: str) -> None:
    """Refuse what would copy text of files outside the workspace into it: a server has read them, too."""
    changed = [change.path for change in changes if change.before is not None]
    if not all(texts.may_say(change.new_text, changed, words) for change in changes):
        raise ToolError(
            "the change would repeat text of a file outside the workspace, behind a link of the project. "
            "No file was changed"
        )


def _result(
    workplace: Workplace, proposal: Proposal, changes: Sequence[FileChange], *, applied: bool
) -> ToolResult:
    diff = unified_diff(changes, workplace.workspace)
    structured = {
        **proposal.about,
        "applied": applied,
        "files": [
            {
                "absolutePath": absolute_text(change.path),
                "workspacePath": workplace.workspace.workspace_path(change.path),
                "kind": change.kind,
            }
            for change in changes
        ],
        "diff": diff.text,
        "diffTruncated": diff.truncated,
        "freshness": [proposal.freshness.structured()],
        "unavailable": asking.unavailable_members(proposal.unavailable),
    }
    lines = [
        proposal.title,
        *proposal.head,
        f"applied: {'true' if applied else 'false'}",
        f"files: {len(changes)}",
        *asking.freshness_lines([proposal.freshness], proposal.unavailable),
    ]
    if changes:
        lines += ["---", diff.text]
    return ToolResult(well_formed("\n".join(lines)), structured)


@dataclass(frozen=True, slots=True)
class _Diff:
    """The text, and whether a part of it is left out."""

    text: str
    truncated: bool


def unified_diff(changes: Sequence[FileChange], workspace: Workspace) -> _Diff:
    """The diff of all changes."""
    lines: list[str] = []
    size = 0
    for line in (line for change in changes for line in _file_diff(change, workspace)):
        text = line if len(line) <= MAX_WIDTH else line[:MAX_WIDTH] + "…"
        size += len(text) + 1
        if size > MAX_CHARACTERS:
            return _Diff("\n".join([*lines, "… the diff is longer"]), truncated=True)
        lines.append(text)
    return _Diff("\n".join(lines), truncated=False)


def _file_diff(change: FileChange, workspace: Workspace) -> Iterator[str]:
    name = workspace.workspace_path(change.path) or change.path.as_posix()
    old, new = _LINE_ENDS.split(change.old_text), _LINE_ENDS.split(change.new_text)
    before = "/dev/null" if change.before is None else f"a/{name}"
    after = "/dev/null" if change.after is None else f"b/{name}"
    if len(old) + len(new) > MAX_LINES:
        yield from (
            f"--- {before}",
            f"+++ {after}",
            f"@@ {len(old)} lines become {len(new)}; not compared @@",
        )
        return
    lines = list(difflib.unified_diff(old, new, before, after, lineterm=""))
    yield from lines or (f"--- {before}", f"+++ {after}")
