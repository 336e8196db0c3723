"""The tool `lm_getDiagnostics`: what compilers, type checkers and linters say of the files on disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness, worst
from lm_tools_bridge.code_intelligence.server import (
    DiagnosticsAnswer,
    FileDiagnostics,
    LanguageServer,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.tools import asking, diagnostic_pages
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting
from lm_tools_bridge.code_intelligence.tools.changed_files import ChangedFiles, changed_files
from lm_tools_bridge.code_intelligence.tools.definitions import (
    DEFAULT_MAX_DIAGNOSTICS,
    DEFAULT_SEVERITIES,
    SEVERITIES,
)
from lm_tools_bridge.code_intelligence.tools.diagnostic_items import Diagnostic, diagnostics_of, merged
from lm_tools_bridge.code_intelligence.tools.diagnostic_pages import Diagnostics
from lm_tools_bridge.code_intelligence.tools.project_files import files_of
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import AskEditor, Problems, Workplace, wait_s
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.text.text_tokens import text_tokens
from workspace_server.call_context import CallContext
from workspace_server.results import well_formed
from workspace_server.tool import InvalidArguments, ToolResult
from workspace_server.workspace import OutsideWorkspace, absolute_text

NO_SOURCE: Final = "NO_DIAGNOSTICS_SOURCE"
SOURCE: Final = "languageServers"
MAX_CHECKED: Final = 200
"""Files that are checked one by one by a server that cannot check a project."""
MAX_BUILT: Final = 10
"""The same for clangd, which keeps all headers of each file in memory."""
LEAST_ANSWER_S: Final = 0.5
"""What a server gets to answer after the waiting time is over."""
_CUT: Final = ("changed files were too many; only the first are looked at",)
_OUTSIDE_REASON: Final = (
    "the file lies outside the workspace, so it may be checked with other settings, or not at all"
)
_OVERVIEW: Final = ("byCode", "byFile")
"""What an answer has only if it does not show all."""
_HEAD_TOKENS: Final = 250
"""The lines above the diagnostics that are in every answer."""
EDITOR_SOURCE: Final = "vscode.languages.getDiagnostics"
EDITOR_FRESHNESS: Final = Freshness(
    "editor", "unknown", "it is what VS Code shows, which does not say whether its checks are finished"
)
NOTHING_SHOWN: Final = (
    "VS Code shows no problems. It does not say whether anything checks these files, or has finished."
)


@dataclass(frozen=True, slots=True)
class _Question:
    """What a call is about: these files, or all if `paths` is None."""

    scope: str
    paths: Sequence[Path] | None
    members: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sources:
    """Who is asked.

    Attributes:
        servers: the servers, each with its files; None for the whole project.
        unavailable: those that do not run.
        starting: what those can say that are not asked because they still start.
        editor: what the editor showed; None without one.
    """

    servers: Sequence[tuple[LanguageServer, Sequence[Path] | None]]
    unavailable: Sequence[Unavailable]
    starting: Sequence[Freshness] = ()
    editor: _EditorPart | None = None

    @property
    def editor_freshness(self) -> Sequence[Freshness]:
        """Only where the editor's part matters: it shows something, or nobody else was asked."""
        matters = self.editor is not None and (self.editor.files or not self.servers)
        return (EDITOR_FRESHNESS,) if matters else ()


async def call(workplace: Workplace, arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
    """Collect the diagnostics of all servers.

    Raises:
        InvalidArguments: at `/filePath` or `/changedSince`.
        ToolError: the file cannot be read, or git failed.
    """
    waiting = Waiting(wait_s(arguments), context)
    question = await _question(workplace, arguments)
    sources = await _sources(workplace, question, waiting)
    texts = await workplace.texts()
    editor = asyncio.create_task(_ask_editor(workplace.editor, question.paths, texts), name="ask-editor")
    try:
        parts = await _ask(workplace, sources, waiting)
        parts = [_in_doubt(workplace, question.paths, part) for part in parts]
        sources = replace(sources, editor=await editor)
    finally:
        editor.cancel()
    diagnostics = await asyncio.to_thread(_diagnostics, question, sources, parts, texts)
    own = await workplace.own(diagnostic.path for diagnostic in diagnostics)
    diagnostics = [diagnostic for diagnostic in diagnostics if diagnostic.path in own]
    return await asyncio.to_thread(_result, workplace, arguments, question, sources, parts, diagnostics)


def _diagnostics(
    question: _Question, sources: _Sources, parts: Sequence[Part[DiagnosticsAnswer]], texts: Texts
) -> Sequence[Diagnostic]:
    """All diagnostics, each once; of a file for which the editor shows some, the editor's."""
    ours = (
        diagnostic
        for part in parts
        if part.value is not None
        for diagnostic in diagnostics_of(part.value.files, part.server.encoding, texts)
    )
    if question.paths is not None:
        paths = frozenset(question.paths)
        ours = (diagnostic for diagnostic in ours if diagnostic.path in paths)
    editors = () if sources.editor is None else sources.editor.diagnostics
    return merged([*editors, *_without_editors(ours, sources.editor)])


def _source(sources: _Sources) -> str:
    """Who the diagnostics are from."""
    editor = [] if sources.editor is None else [EDITOR_SOURCE]
    if editor and sources.editor is not None and not sources.editor.files and sources.servers:
        editor = []
    return ", ".join([*editor, *([SOURCE] if sources.servers or not editor else [])])


def has_source(result: ToolResult) -> bool:
    """Whether any server could say something."""
    return bool(result.structured) and bool(result.structured["freshness"])


async def _question(workplace: Workplace, arguments: Mapping[str, Any]) -> _Question:
    text, since = arguments.get("filePath"), arguments.get("changedSince")
    if text is not None and since is not None:
        raise InvalidArguments("/changedSince", "give either filePath or changedSince")
    if text is not None:
        path = await asyncio.to_thread(_existing_file, workplace, text)
        return _Question("single-file", (path,))
    if since is None:
        return _Question("workspace+external", None)
    environ = await workplace.environment()
    changed = await changed_files(workplace.workspace, since, workplace.opened_at, environ)
    return _Question(
        "changed-files", changed.paths, _changes(since, changed, workplace), _CUT if changed.partial else ()
    )


def _changes(since: str, changed: ChangedFiles, workplace: Workplace) -> Mapping[str, Any]:
    opened = datetime.fromtimestamp(workplace.opened_at, UTC).isoformat(timespec="seconds")
    moment = "last commit" if since == "head" else f"workspace opened at {opened}"
    return {"changedSince": moment, "changedFiles": len(changed.paths)}


async def _sources(workplace: Workplace, question: _Question, waiting: Waiting) -> _Sources:
    if question.paths is None:
        available = await workplace.servers.for_project("diagnostics", wait_s=waiting.left_s)
        running, unavailable = asking.split(available)
        return _Sources([(server, None) for server in running], *asking.told_apart(unavailable))
    kinds: dict[str, list[Path]] = {}
    for path in question.paths:
        kinds.setdefault(path.suffix or path.name, []).append(path)
    files: dict[str, tuple[LanguageServer, list[Path]]] = {}
    missing: dict[str, Unavailable] = {}
    for paths in kinds.values():
        for each in await workplace.servers.for_file(paths[0], "diagnostics", wait_s=waiting.left_s):
            name = each.specification.name
            if isinstance(each, Unavailable):
                missing[name] = each
            else:
                files.setdefault(name, (each, []))[1].extend(paths)
    return _Sources(list(files.values()), *asking.told_apart(list(missing.values())))


async def _ask(workplace: Workplace, sources: _Sources, waiting: Waiting) -> list[Part[DiagnosticsAnswer]]:
    paths_of = {id(server): paths for server, paths in sources.servers}

    async def work(server: LanguageServer) -> DiagnosticsAnswer:
        paths = paths_of[id(server)]
        answer = await server.diagnostics(paths, max(waiting.left_s, LEAST_ANSWER_S))
        if paths is None and answer.freshness.state == "partial":
            return await _file_by_file(workplace, server, answer, max(waiting.left_s, LEAST_ANSWER_S))
        return answer

    parts = await asking.ask_all([server for server, _ in sources.servers], work, waiting, settles=False)
    return [
        part if part.value is None else Part(part.server, part.value.freshness, part.value) for part in parts
    ]


async def _file_by_file(
    workplace: Workplace, server: LanguageServer, project_answer: DiagnosticsAnswer, left_s: float
) -> DiagnosticsAnswer:
    """The diagnostics of the project from a server that knows those of open files only."""
    kind = server.specification
    limit = MAX_BUILT if kind.changes == "open-documents" else MAX_CHECKED
    files = await files_of(workplace.workspace, workplace.searches, kind, limit)
    answer = await server.diagnostics(files.paths, left_s)
    paths, freshness = frozenset(files.paths), answer.freshness
    if files.partial and freshness.state == "fresh":
        reason = "it checks single files, and the project has more; ask for files or for changed ones"
        freshness = Freshness(kind.name, "partial", reason, len(files.paths))
    others = [file for file in project_answer.files if file.path not in paths]
    return DiagnosticsAnswer([*answer.files, *others], freshness)


def _result(  # noqa: PLR0917  the facts about one call
    workplace: Workplace,
    arguments: Mapping[str, Any],
    question: _Question,
    sources: _Sources,
    parts: Sequence[Part[DiagnosticsAnswer]],
    diagnostics: Sequence[Diagnostic],
) -> ToolResult:
    severities = [word for word in SEVERITIES if word in arguments.get("severities", DEFAULT_SEVERITIES)]
    selected = diagnostic_pages.arrange_diagnostics(
        each for each in diagnostics if SEVERITIES[each.severity] in severities
    )
    freshness = [*(part.freshness for part in parts), *sources.starting, *sources.editor_freshness]
    notes = [*question.notes, *_notes(question, sources, freshness, selected.items)]
    head = {
        "source": _source(sources),
        "scope": question.scope,
        **question.members,
        "severities": severities,
        "totalDiagnostics": len(selected.items),
        "counts": diagnostic_pages.severity_counts(selected),
        **_overview(workplace, selected),
        "freshness": [each.structured() for each in freshness],
        "unavailable": asking.unavailable_members(sources.unavailable),
        **({"note": " ".join(notes)} if notes else {}),
    }
    states = [
        *asking.freshness_lines(freshness, sources.unavailable),
        *(f"note: {note}" for note in notes),
    ]
    offset = max(0, int(arguments.get("offset", 0)))
    span = slice(offset, offset + max(1, int(arguments.get("maxResults", DEFAULT_MAX_DIAGNOSTICS))))
    text = _text(workplace, question, head, states, selected, span)
    return ToolResult(well_formed(text), _structured(workplace, head, selected, span))


def _structured(
    workplace: Workplace, head: Mapping[str, Any], selected: Diagnostics, span: slice
) -> dict[str, Any]:
    """The structured content, with a page of its own."""
    members = partial(_file_members, workplace)
    head_tokens = _HEAD_TOKENS + text_tokens(jsonrpc.dumps(head).decode())
    page = diagnostic_pages.structured_page(selected, span, head_tokens, members)
    capped = page.following is not None
    return {
        **{name: value for name, value in head.items() if capped or name not in _OVERVIEW},
        "capped": capped,
        "nextOffset": page.following,
        **({"endings": {str(number): text for number, text in page.endings}} if page.endings else {}),
        "files": [
            {**members(path), "diagnostics": [each.structured() for each in items]}
            for path, items in diagnostic_pages.by_file(page.items)
        ],
    }


def _text(  # noqa: PLR0917  the facts about one answer
    workplace: Workplace,
    question: _Question,
    head: Mapping[str, Any],
    states: Sequence[str],
    selected: Diagnostics,
    span: slice,
) -> str:
    """The text: counts first."""
    overview = [f"{name}: {_join_counts(head[name])}" for name in _OVERVIEW if head[name]]
    head_tokens = _HEAD_TOKENS + text_tokens("\n".join([*states, *overview]))
    page = diagnostic_pages.text_page(selected, span, head_tokens, workplace.shown_path)
    capped = page.following is not None
    lines = [
        "Diagnostics summary",
        f"source: {head['source']}",
        f"scope: {question.scope}",
        *(f"{name}: {value}" for name, value in question.members.items()),
        f"severities: {', '.join(head['severities'])}",
        f"files: {len({each.path for each in selected.items})}",
        f"diagnostics: {len(page.items)}/{len(selected.items)}{' (capped)' if capped else ''}",
        *([f"counts: {_join_counts(head['counts'])}"] if selected.items else []),
        *(overview if capped else []),
        *([f"nextOffset: {page.following}"] if capped else []),
        *states,
        *diagnostic_pages.page_lines(page, selected.repeated, workplace.shown_path),
    ]
    return "\n".join(lines)


def _overview(workplace: Workplace, diagnostics: Diagnostics) -> dict[str, dict[str, int]]:
    """What to look at first, of more diagnostics than one answer shows."""
    return {
        "byCode": dict(diagnostic_pages.frequent_codes(diagnostics)),
        "byFile": {
            workplace.shown_path(path): count for path, count in diagnostic_pages.frequent_files(diagnostics)
        },
    }


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _file_members(workplace: Workplace, path: Path) -> dict[str, Any]:
    return {
        "absolutePath": absolute_text(path),
        "workspacePath": workplace.workspace.workspace_path(path),
    }


def _notes(
    question: _Question,
    sources: _Sources,
    freshness: Sequence[Freshness],
    diagnostics: Sequence[Diagnostic],
) -> list[str]:
    """What keeps an answer without diagnostics from being read as `all is well`."""
    if question.paths is not None and not question.paths:
        return ["No file changed."]
    if not sources.servers and not sources.starting and sources.editor is not None:
        return [] if diagnostics else [NOTHING_SHOWN]
    if not sources.servers and not sources.starting:
        what = "this project" if question.paths is None else "these files"
        hint = " See `unavailable` for what would." if sources.unavailable else ""
        return [f"Nothing checks {what}, so nothing is known about errors.{hint}"]
    limit = worst(freshness)
    if not diagnostics and limit is not None and limit.state != "fresh":
        return ["No diagnostics are known yet; this does not mean that there are none. See freshness."]
    if not diagnostics and sources.unavailable:
        return ["Not all that would check this ran, so errors may be unknown. See `unavailable`."]
    return []


def _existing_file(workplace: Workplace, text: str) -> Path:
    """The real path of a file, which may lie outside if `text` is absolute or leads over a link. Blocks.

    A file of another project is refused: its own servers know better.

    Raises:
        InvalidArguments, ToolError: as `Workplace.file`.
    """
    try:
        return workplace.file(text)
    except OutsideWorkspace as refused:
        if refused.project is not None and not _is_named_inside(workplace, text):
            raise
        for folder in workplace.workspace.folders:
            path = os.path.normpath(folder.path / text)
            is_named_inside = Path(text).is_absolute() or Path(path).is_relative_to(folder.path)
            real = Path(os.path.realpath(path))
            if is_named_inside and real.is_file():
                return real
        raise


def _is_named_inside(workplace: Workplace, text: str) -> bool:
    """Whether the path leads out of the workspace over a link in it."""
    return any(
        Path(os.path.normpath(text)).is_relative_to(folder.path) for folder in workplace.workspace.folders
    )


def _in_doubt(
    workplace: Workplace, paths: Sequence[Path] | None, part: Part[DiagnosticsAnswer]
) -> Part[DiagnosticsAnswer]:
    """The part; what is said of a file outside is never called complete: it may be of no project."""
    is_outside = paths is not None and not all(map(workplace.workspace.contains, paths))
    if not is_outside or part.freshness.state != "fresh":
        return part
    return replace(part, freshness=Freshness(part.freshness.provider, "unknown", _OUTSIDE_REASON))


@dataclass(frozen=True, slots=True)
class _EditorPart:
    """What the editor shows. `files` are those for which it shows any problem."""

    files: frozenset[Path]
    diagnostics: Sequence[Diagnostic]


async def _ask_editor(editor: AskEditor, paths: Sequence[Path] | None, texts: Texts) -> _EditorPart | None:
    """Ask the editor; None as for `AskEditor`."""
    problems = await editor(paths)
    return None if problems is None else await asyncio.to_thread(_editor_part, problems, paths, texts)


def _editor_part(problems: Problems, paths: Sequence[Path] | None, texts: Texts) -> _EditorPart:
    chosen_paths = None if paths is None else frozenset(paths)
    files = [
        FileDiagnostics(path, texts.lines(path), items)
        for path, items in problems.items()
        if chosen_paths is None or path in chosen_paths
    ]
    return _EditorPart(frozenset(file.path for file in files), list(diagnostics_of(files, "utf-16", texts)))


def _without_editors(diagnostics: Iterable[Diagnostic], part: _EditorPart | None) -> Iterable[Diagnostic]:
    """The diagnostics of files for which the editor shows none."""
    return (
        diagnostics
        if part is None
        else (diagnostic for diagnostic in diagnostics if diagnostic.path not in part.files)
    )
