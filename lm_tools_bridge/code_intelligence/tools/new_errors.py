"""Adds to an answer the errors that are new since the client's last answer: most come from its own edits.

Only servers that run are asked, and only after a change on disk. What a check does not reach in time comes
with the next answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from lm_tools_bridge.code_intelligence.server import FollowingServer
from lm_tools_bridge.code_intelligence.tools.definitions import GET_DIAGNOSTICS
from lm_tools_bridge.code_intelligence.tools.error_journal import ErrorJournal, JournalEntry
from lm_tools_bridge.code_intelligence.tools.error_reports import WHOLE, ask_errors
from lm_tools_bridge.code_intelligence.tools.texts import cut
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from workspace_server import log
from workspace_server.call_context import CallContext
from workspace_server.results import well_formed
from workspace_server.tool import ToolResult

MAX_LINES: Final = 20
"""Lines of the section: enough to see what broke. `lm_getDiagnostics` has the rest."""
WAIT_S: Final = 0.25
"""So long an answer waits for a check that runs beside its tool. Most servers need less to find an error; ty
keeps a report without errors back for a second."""
CHECK_S: Final = 20.0
"""Longest check, which goes on behind the answer: a server may read the project meanwhile."""
_DATED: Final = "new errors since your last answer"
_UNDATED: Final = "errors in files changed since your last answer, which may have had them before"


class NewErrors:
    """What the clients of one project were told of its errors."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self._journal = ErrorJournal()
        self._seen: WeakKeyDictionary[FollowingServer, int] = WeakKeyDictionary()
        self._checking: asyncio.Task[None] | None = None

    def begin(self, context: CallContext) -> None:
        """Begin a check beside a tool, for a client that can be told apart."""
        if _client_of(context) and self._seen and (self._checking is None or self._checking.done()):
            self._checking = asyncio.create_task(self._check(), name="check-new-errors")

    async def add_to(
        self, result: ToolResult, name: str, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        """The result with a section of new errors, if there are some and the client can be told apart.

        Args:
            result: of a language tool.
            name: the tool's.
            arguments: those of the call.
            context: of the call.
        """
        client = _client_of(context)
        if not client or result.is_error:
            return result
        await self._look(min(WAIT_S, wait_s(arguments)))
        entries = self._journal.news(client)
        if name == GET_DIAGNOSTICS.name:
            entries = await self._not_shown(entries, arguments)
        elif isinstance(result.structured, dict) and "errors" in result.structured:
            return result  # a rename tells them itself
        return _with_section(result, entries, self._workplace) if entries else result

    async def close(self) -> None:
        """End a check that is under way."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)

    async def _look(self, seconds: float) -> None:
        """Check what changed; wait for it so long, but not for the very first check, which tells nothing."""
        until = asyncio.get_running_loop().time() + seconds
        is_first = not self._seen
        if self._checking is not None and not await _is_done(self._checking, until):
            return
        # one that was under way may have begun before the last write
        self._checking = asyncio.create_task(self._check(), name="check-new-errors")
        if not is_first:
            await _is_done(self._checking, until)

    async def _check(self) -> None:
        try:
            async with asyncio.timeout(2 * CHECK_S):
                await self._check_changed()
        except Exception as fault:  # noqa: BLE001  an answer does not fail for what nobody asked
            log.fault("new_errors_unknown", fault)

    async def _check_changed(self) -> None:
        """Ask the servers that were told of changes since they were asked last."""
        changed: list[Path] = []
        numbers: dict[FollowingServer, int] = {}
        for server in await self._workplace.servers.running_for("diagnostics"):
            since = self._seen.get(server)
            number, paths = server.changed_files(since or 0)
            if since is None and not server.supports(WHOLE):
                self._seen[server] = number  # it is asked about files that change from now on
            elif number != since:
                numbers[server] = number
                changed += paths
        if not numbers:
            return
        texts = await self._workplace.texts()
        paths = list(dict.fromkeys(changed))
        reports = await ask_errors(self._workplace, list(numbers), paths, CHECK_S, texts)
        known_files = self._journal.files()
        # a file that was removed has no errors any more, and no server says so
        gone = await asyncio.to_thread(lambda: {path: not path.exists() for path in known_files})
        answered = {report.provider for report in reports}
        self._seen |= {server: at for server, at in numbers.items() if server.specification.name in answered}
        self._journal.forget_files(gone)
        self._journal.take(reports)

    async def _not_shown(
        self, entries: Sequence[JournalEntry], arguments: Mapping[str, Any]
    ) -> list[JournalEntry]:
        """Those that an answer of `lm_getDiagnostics` does not show itself."""
        if "filePath" not in arguments:
            return []
        path = await self._workplace.find_file(arguments["filePath"])
        return [entry for entry in entries if entry.error.path != path]


def _client_of(context: CallContext) -> str:
    """What tells a client apart: its session, else its name; empty without both."""
    return context.caller or context.client


async def _is_done(task: asyncio.Task[None], until: float) -> bool:
    """Whether a check ends in time."""
    await asyncio.wait({task}, timeout=max(0.0, until - asyncio.get_running_loop().time()))
    return task.done()


def _with_section(result: ToolResult, entries: Sequence[JournalEntry], workplace: Workplace) -> ToolResult:
    lines = [well_formed(line) for line in section_lines(entries, workplace)]
    structured = result.structured
    if isinstance(structured, dict):
        structured = {**structured, "newErrors": {"total": len(entries), "lines": lines}}
    return msgspec.structs.replace(
        result, text="\n".join([result.text.removesuffix("\n---"), "---", *lines]), structured=structured
    )


def section_lines(entries: Sequence[JournalEntry], workplace: Workplace) -> list[str]:
    """The section: a head, and the errors by file; at most `MAX_LINES` lines."""
    lines = list(_all_lines(entries, workplace))
    if len(lines) <= MAX_LINES:
        return lines
    shown_lines = lines[: MAX_LINES - 1]
    shown_errors = sum(line.startswith("[") for line in shown_lines)
    return [*shown_lines, f"… and {len(entries) - shown_errors} more: see lm_getDiagnostics"]


def _all_lines(entries: Sequence[JournalEntry], workplace: Workplace) -> Iterator[str]:
    for is_dated, group in groupby(entries, lambda entry: entry.is_dated):
        of_group = list(group)
        yield f"{_DATED if is_dated else _UNDATED}: {len(of_group)}"
        for path, in_file in groupby(of_group, lambda entry: entry.error.path):
            yield workplace.shown_path(path)
            yield from (cut(entry.error.text()) for entry in in_file)
