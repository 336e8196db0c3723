"""The tool `lm_renameSymbol`: renames a symbol in all files, or shows what that would change."""

from __future__ import annotations

import asyncio
import keyword
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import references
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting, list_of
from lm_tools_bridge.code_intelligence.tools.editing import edit_results, effects
from lm_tools_bridge.code_intelligence.tools.editing.edit_results import Proposal
from lm_tools_bridge.code_intelligence.tools.editing.effects import ErrorCount
from lm_tools_bridge.code_intelligence.tools.editing.exported_names import PYTHON, exported_spans, read_module
from lm_tools_bridge.code_intelligence.tools.references import target_members
from lm_tools_bridge.code_intelligence.tools.symbols.one_symbol import names_of_type
from lm_tools_bridge.code_intelligence.tools.symbols.places import Location
from lm_tools_bridge.code_intelligence.tools.symbols.stubs import joined_edits, with_other_declaration
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, positions_of
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.word_check.absence import find_known_target
from lm_tools_bridge.code_intelligence.tools.word_check.checking import (
    AnswerCheck,
    words_lines,
    words_members,
)
from lm_tools_bridge.code_intelligence.tools.word_check.project_words import find_quoted_files
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import OutsideText, order_of, to_server
from lm_tools_bridge.code_intelligence.wire.workspace_edits import EditFile, EditRefused, read_workspace_edit
from workspace_server.call_context import CallContext
from workspace_server.results import well_formed
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

_METHOD: Final = "textDocument/rename"
_ALLOW: Final = "allowIncomplete"
_ANYWHERE: Final = re.compile(r"[\w$#@!?~:.*<=>\[\]+%^&|-]+")
"""What names are made of in any language, such as `a-b` in CSS, `r#type` in Rust, and `operator+` in C++."""
_SCRIPTS: Final = frozenset({".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"})
_SCRIPT_NAME: Final = re.compile(r"#?[^\W\d][\w$]*|#?\$[\w$]*")
_SCRIPT_WORDS: Final = frozenset(
    {
        "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default",
        "delete", "do", "else", "enum", "export", "extends", "false", "finally", "for", "function",
        "if", "implements", "import", "in", "instanceof", "interface", "let", "new", "null",
        "package", "private", "protected", "public", "return", "static", "super", "switch", "this",
        "throw", "true", "try", "typeof", "var", "void", "while", "with", "yield",
    }
)  # fmt: skip
MAX_NAME: Final = 256
"""Characters of a name: longer ones are a mistake of the caller."""
_WORSE: Final = "the rename raised the number of errors: check them, or take it back"
NO_NAME: Final = "must be a name, without a path, blanks or brackets"


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Rename the symbol to `newName`.

    Raises:
        InvalidArguments: the symbol is not named, or not uniquely.
        ToolError: it cannot be renamed; no file was changed, or the message says so.
    """
    new = arguments["newName"]
    if arguments.get("undo", False):
        return await asyncio.to_thread(_undone, workplace, apply=arguments.get("apply", True))
    _check(new)
    begun, waiting, texts = time.time_ns(), Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_known_target(workplace, arguments, _METHOD, waiting, texts)
    _check(new, target.path)

    declared = await with_other_declaration(
        workplace, replace(target, others=names_of_type(target.others)), texts
    )
    first, *more = [{**params, "newName": new} for params in await positions_of(workplace, declared)]

    async def work(server: LanguageServer) -> Any:
        edit = await server.request(_METHOD, first) or {}
        for params in more:
            edit = joined_edits(edit, await server.request(_METHOD, params) or {})
        return edit

    async def ask_server() -> Part[Any]:
        part = await references.ask(workplace, target, work, waiting)
        return await _with_exported_names(workplace, target, part, new, texts)

    check = AnswerCheck(workplace, target, waiting.seconds, texts, is_edit=True)
    answer = await check.checked(ask_server, _edited_places)
    part, comparison = answer.part, answer.comparison
    if part.value is None:
        raise ToolError(
            f"it cannot be renamed: {part.freshness.text()}. No file was changed",
            {"freshness": [part.freshness.structured()]},
        )
    if aliases := target.server.aliases(target.path):
        reason = (
            f"uses over {workplace.shown_path(aliases[0])}, another name of this file, are not among them"
        )
        part = replace(part, freshness=Freshness(target.server.specification.name, "partial", reason))
        if arguments.get("apply", True):
            raise ToolError(f"{reason}. No file was changed; apply: false shows what is known")
    about, head = target_members(target, workplace)
    if comparison is not None:
        about["words"] = words_members(comparison, workplace)
        head += words_lines(comparison)
        if not comparison.is_complete and arguments.get("apply", True) and not arguments.get(_ALLOW, False):
            raise _incomplete(part.freshness, about)
    proposal = Proposal(
        "Rename symbol summary",
        part.value,
        target.server.encoding,
        begun,
        part.freshness,
        target.unavailable,
        about,
        head,
        new,
        partial(effects.keep_for_undo, workplace),
    )
    if not arguments.get("apply", True):
        return await edit_results.finish(workplace, proposal, texts, apply=False)
    paths = list({place.path for place in answer.locations})
    before = await effects.count_errors(workplace, paths, waiting, texts)
    result = await edit_results.finish(workplace, proposal, texts, apply=True)
    after = await effects.count_errors(workplace, paths, waiting, await workplace.texts())
    errors = effects.compared_errors(before, after, target.name, new)
    return _with_errors(workplace, result, errors, arguments)


def _with_errors(
    workplace: Workplace, result: ToolResult, errors: ErrorCount, arguments: Mapping[str, Any]
) -> ToolResult:
    """The result with what the rename did to the errors, above the diff."""
    lines = errors.lines(workplace)
    members = {**result.structured, "errors": errors.structured(workplace)}
    if workplace.undoable:
        offer = effects.undo_offer(arguments)
        lines.append(offer)
        members["undo"] = offer
    if errors.is_worse:
        lines.insert(0, _WORSE)
    head, mark, diff = result.text.partition("\n---\n")
    return msgspec.structs.replace(result, text="\n".join([head, *lines]) + mark + diff, structured=members)


def _undone(workplace: Workplace, *, apply: bool) -> ToolResult:
    """Take the last rename back, or name the files of which that is about. Blocks."""
    changes = effects.undo(workplace, apply=apply)
    files = [workplace.shown_path(change.path) for change in changes]
    title = "Rename taken back" if apply else "Rename to take back"
    text = well_formed("\n".join([title, f"files: {len(files)}", *files]))
    return ToolResult(text, {"undone": apply, "files": [{"workspacePath": file} for file in files]})


async def _with_exported_names(
    workplace: Workplace, target: Target, part: Part[Any], new: str, texts: Texts
) -> Part[Any]:
    """The server's edit, with the strings in `__all__` that name the symbol."""
    edit = part.value if isinstance(part.value, Mapping) else {}
    has_files = any("kind" in each for each in list_of(edit.get("documentChanges")))
    if not edit or has_files or target.path.suffix not in PYTHON or not target.name.isidentifier():
        return part
    locations = await _edited_places(part.value)
    files = await find_quoted_files(workplace, target.name, target.server.specification)
    edits = await asyncio.to_thread(_export_edits, target, locations, files, new, texts)
    return replace(part, value=joined_edits(edit, {"changes": edits})) if edits else part


def _export_edits(
    target: Target, locations: Sequence[Location], files: Sequence[Path], new: str, texts: Texts
) -> dict[str, list[dict[str, Any]]]:
    """The edits of strings in `__all__`, by URI; none where the server's own edit is. Blocks."""
    places: dict[Path, list[tuple[int, int, int, int]]] = {}
    for location in locations:
        if (order := order_of(location.where)) is not None:
            places.setdefault(location.path, []).append(order)
    modules = []
    for path in dict.fromkeys([*places, *files]):
        lines = texts.lines(path) if path.suffix in PYTHON else None
        module = None if lines is None else read_module(path, lines, target.name)
        modules += [module] if module is not None else []
    changed = {path: frozenset(line + 1 for line, *_ in orders) for path, orders in places.items()}
    edits: dict[str, list[dict[str, Any]]] = {}
    for path, span in exported_spans(modules, changed):
        lines = texts.lines(path) or ()
        start, end = (to_server(at, lines, target.server.encoding) for at in (span.start, span.end))
        if isinstance(start, OutsideText) or isinstance(end, OutsideText):
            continue
        own = (start["line"], start["character"], end["line"], end["character"])
        if own not in places.get(path, ()):
            edits.setdefault(to_uri(path), []).append({"range": {"start": start, "end": end}, "newText": new})
    return edits


async def _edited_places(edit: Any) -> Sequence[Location]:
    """The places that a `WorkspaceEdit` changes."""
    operations = await asyncio.to_thread(read_workspace_edit, edit)
    if isinstance(operations, EditRefused):
        return []
    edits = [operation for operation in operations if isinstance(operation, EditFile)]
    return [Location(each.path, edit.get("range")) for each in edits for edit in each.edits]


def _incomplete(freshness: Freshness, about: Mapping[str, Any]) -> ToolError:
    return ToolError(
        f"the change may miss places ({freshness.text()}). No file was changed; "
        f"apply: false shows the change, and {_ALLOW}: true applies it as it is",
        {**about, "freshness": [freshness.structured()]},
    )


def _check(new: str, path: Path | None = None) -> None:
    """Refuse what is no name, in any language or in that of a file: few servers look."""
    reason = why_no_name(new, None if path is None else path.suffix)
    if reason:
        raise InvalidArguments("/newName", reason)


def why_no_name(text: str, suffix: str | None) -> str:
    """Why the text is no name, in a few words; empty if it may be one.

    Args:
        text: the new name of a symbol.
        suffix: that of the file which declares it; None if it is not known yet.
    """
    if suffix is None:
        return "" if len(text) <= MAX_NAME and _ANYWHERE.fullmatch(text) else NO_NAME
    if suffix in PYTHON:
        return _why_not_in("Python", text, is_name=text.isidentifier(), is_word=keyword.iskeyword(text))
    if suffix in _SCRIPTS:
        is_name = _SCRIPT_NAME.fullmatch(text) is not None
        return _why_not_in("JavaScript", text, is_name=is_name, is_word=text in _SCRIPT_WORDS)
    return ""


def _why_not_in(language: str, text: str, *, is_name: bool, is_word: bool) -> str:
    if not is_name:
        return f"{text} is no name in {language}"
    return f"{text} is a reserved word in {language}" if is_word else ""
