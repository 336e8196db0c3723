"""The tool `lm_renameSymbol`: renames a symbol in all files, or shows what that would change."""

from __future__ import annotations

import asyncio
import keyword
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import references
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting
from lm_tools_bridge.code_intelligence.tools.editing import edit_results
from lm_tools_bridge.code_intelligence.tools.editing.edit_results import Proposal
from lm_tools_bridge.code_intelligence.tools.references import target_members
from lm_tools_bridge.code_intelligence.tools.symbols.places import Location
from lm_tools_bridge.code_intelligence.tools.symbols.stubs import joined_edits, with_other_declaration
from lm_tools_bridge.code_intelligence.tools.symbols.target import positions_of
from lm_tools_bridge.code_intelligence.tools.word_check.absence import find_known_target
from lm_tools_bridge.code_intelligence.tools.word_check.checking import (
    AnswerCheck,
    words_lines,
    words_members,
)
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.workspace_edits import EditFile, EditRefused, read_workspace_edit
from workspace_server.call_context import CallContext
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

_METHOD: Final = "textDocument/rename"
_ALLOW: Final = "allowIncomplete"
_ANYWHERE: Final = re.compile(r"[\w$#@!?~:.*<=>\[\]+%^&|-]+")
"""What names are made of in any language, such as `a-b` in CSS, `r#type` in Rust, and `operator+` in C++."""
_PYTHON: Final = frozenset({".py", ".pyi"})
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
    _check(new)
    begun, waiting, texts = time.time_ns(), Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_known_target(workplace, arguments, _METHOD, waiting, texts)
    _check(new, target.path)

    declared = await with_other_declaration(workplace, replace(target, others=()), texts)
    first, *more = [{**params, "newName": new} for params in await positions_of(workplace, declared)]

    async def work(server: LanguageServer) -> Any:
        edit = await server.request(_METHOD, first) or {}
        for params in more:
            edit = joined_edits(edit, await server.request(_METHOD, params) or {})
        return edit

    async def ask_server() -> Part[Any]:
        return await references.ask(workplace, target, work, waiting)

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
    )
    return await edit_results.finish(workplace, proposal, texts, apply=arguments.get("apply", True))


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
    if suffix in _PYTHON:
        return _why_not_in("Python", text, is_name=text.isidentifier(), is_word=keyword.iskeyword(text))
    if suffix in _SCRIPTS:
        is_name = _SCRIPT_NAME.fullmatch(text) is not None
        return _why_not_in("JavaScript", text, is_name=is_name, is_word=text in _SCRIPT_WORDS)
    return ""


def _why_not_in(language: str, text: str, *, is_name: bool, is_word: bool) -> str:
    if not is_name:
        return f"{text} is no name in {language}"
    return f"{text} is a reserved word in {language}" if is_word else ""
