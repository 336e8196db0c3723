"""Asks running language servers for the errors of changed files, or of the whole project if they can."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import DiagnosticsAnswer, FollowingServer, LanguageServer
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic, diagnostics_of, merged
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace

MAX_FILES: Final = 30
"""Changed files that are checked one by one: an agent writes a few between two calls."""
WHOLE: Final = "workspace/diagnostic"
_DEPENDABLE: Final = frozenset({"fresh", "partial"})
"""States in which an answer is about the files as they are now."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The errors that one server sees.

    Attributes:
        provider: its name.
        files: the errors of each file that it speaks about, also of those without any.
        is_whole: whether all other files of the project have none.
    """

    provider: str
    files: Mapping[Path, Sequence[Diagnostic]]
    is_whole: bool

    @property
    def errors(self) -> Iterator[Diagnostic]:
        """All of them."""
        return (error for errors in self.files.values() for error in errors)


async def ask_errors(
    workplace: Workplace,
    servers: Sequence[FollowingServer],
    paths: Sequence[Path],
    wait_s: float,
    texts: Texts,
) -> list[ErrorReport]:
    """The errors in the project, of servers that know all of it, and in these files.

    Args:
        workplace: the project.
        servers: whom to ask.
        paths: files that changed, each asked of the servers of its language.
        wait_s: how long a server may take.
        texts: the files that may be shown.

    Returns:
        One report of each server that answered about the files as they are now.
    """
    questions = (_report(workplace, server, paths, wait_s, texts) for server in servers)
    return [report for report in await asyncio.gather(*questions) if report is not None]


async def _report(
    workplace: Workplace, server: LanguageServer, paths: Sequence[Path], wait_s: float, texts: Texts
) -> ErrorReport | None:
    answer = await server.diagnostics(None, wait_s) if server.supports(WHOLE) else None
    if answer is None or not answer.is_whole:
        own = [path for path in paths if _is_read_by(server.specification, path)][:MAX_FILES]
        if not own:
            return None
        answer = await server.diagnostics(own, wait_s)
    if answer.freshness.state not in _DEPENDABLE:
        return None
    own_files = await workplace.own(file.path for file in answer.files)
    errors = await asyncio.to_thread(_errors, answer, server, texts)
    files = {path: errors.get(path, []) for path in own_files}
    return ErrorReport(server.specification.name, files, answer.is_whole)


def _is_read_by(kind: ServerSpecification, path: Path) -> bool:
    return not {path.name, path.suffix}.isdisjoint(kind.languages)


def _errors(
    answer: DiagnosticsAnswer, server: LanguageServer, texts: Texts
) -> Mapping[Path, Sequence[Diagnostic]]:
    """The errors by file, in order. Blocks."""
    errors: dict[Path, list[Diagnostic]] = {}
    for diagnostic in merged(diagnostics_of(answer.files, server.encoding, texts)):
        if not diagnostic.severity:
            errors.setdefault(diagnostic.path, []).append(diagnostic)
    return errors
