"""The tool `lm_editSymbol`: replaces a symbol, inserts beside it, or deletes it if nothing uses it."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.tools import references
from lm_tools_bridge.code_intelligence.tools.asking import Waiting
from lm_tools_bridge.code_intelligence.tools.editing import edit_results
from lm_tools_bridge.code_intelligence.tools.editing.edit_results import Proposal
from lm_tools_bridge.code_intelligence.tools.references import target_members
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import OUTLINE, Symbol
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, find_target
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import OutsideText, Position, Span, to_server
from workspace_server.call_context import CallContext
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

MOST_BLANKS: Final = 2
"""Blank lines between two declarations, as most styles have them."""
MOST_TOLD: Final = 10
"""Uses that a refusal names: enough to see that it is right."""
_WORDS_BEFORE: Final = re.compile(
    r"\s*(?:(?:abstract|async|const|declare|default|export|func|let|private|protected|pub|public|readonly"
    r"|static|type|var)\s+)+"
)
"""What belongs to a declaration, although some servers begin its range at the name."""
_DECORATOR: Final = re.compile(r"\s*(?:@\w|#\[)")
_CLOSING: Final = re.compile(r"[)\]}]|end\b")


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Change the source of one symbol.

    Raises:
        InvalidArguments: the symbol is not named, or not uniquely; or there is no text to write.
        ToolError: it is still used, or cannot be changed. No file was changed, or the message says so.
    """
    action, text = arguments["action"], str(arguments.get("text", ""))
    if action != "delete" and not text.strip():
        raise InvalidArguments("/text", f"is needed for {action}")
    begun, waiting, texts = time.time_ns(), Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_target(workplace, arguments, OUTLINE, waiting, texts)
    symbol, lines = target.symbol, target.symbol.place.lines if target.symbol is not None else None
    if symbol is None or not lines:
        raise ToolError("no symbol is declared at this place; name one by `symbol`")
    if action == "delete":
        await _refuse_if_used(workplace, symbol, Waiting(waiting.left_s, context))
    span, new_text = planned_edit(lines, symbol.whole, action, text)
    about, head = target_members(target, workplace)
    proposal = Proposal(
        "Edit symbol summary",
        {"changes": {to_uri(target.path): [{"range": _range(target, lines, span), "newText": new_text}]}},
        target.server.encoding,
        begun,
        Freshness(target.server.specification.name, "fresh"),
        target.unavailable,
        about,
        head,
        text,
    )
    return await edit_results.finish(workplace, proposal, texts, apply=arguments.get("apply", True))


async def _refuse_if_used(workplace: Workplace, symbol: Symbol, waiting: Waiting) -> None:
    """Refuse if a use is known outside of the symbol, or if not all uses are known.

    Raises:
        ToolError: this is so.
    """
    start = symbol.place.span.start
    question = {
        "filePath": str(symbol.place.path),
        "line": start.line,
        "character": start.column,
        "detail": "places",
        "waitS": waiting.left_s,
    }
    told = (await references.call("lm_references", workplace, question, waiting.context)).structured
    uses = [use for use in told["references"] if not _is_inside(use, symbol)]
    rest = max(0, told["total"] - told["count"])  # on later pages, wherever they are
    if uses or rest:
        places = dict.fromkeys(
            f"{use['workspacePath'] or use['absolutePath']}#{use['startLine']}" for use in uses
        )
        count = len(uses) + rest
        times = "once" if count == 1 else f"{count} times"
        shown = ", ".join([*places][:MOST_TOLD]) or "in itself more often than one answer shows"
        raise ToolError(f"{symbol.title()} is used {times}: {shown}. No file was changed", told)
    doubts = [part for part in told["freshness"] if part["state"] != "fresh"]
    if doubts:
        reasons = "; ".join(
            f"{part['provider']}: {part['state']}: {part.get('reason', '')}" for part in doubts
        )
        raise ToolError(
            f"no use of {symbol.title()} is known, but there may be some ({reasons}). No file was changed",
            told,
        )


def _is_inside(use: Mapping[str, Any], symbol: Symbol) -> bool:
    is_same_file = use["absolutePath"] == symbol.place.path.as_posix()
    return bool(is_same_file and symbol.whole.start.line <= use["startLine"] <= symbol.whole.end.line)


def _range(target: Target, lines: Sequence[str], span: Span) -> Mapping[str, Any]:
    start = to_server(span.start, lines, target.server.encoding)
    end = to_server(span.end, lines, target.server.encoding)
    if isinstance(start, OutsideText) or isinstance(end, OutsideText):
        raise ToolError("the file changed meanwhile; call again. No file was changed")
    return {"start": start, "end": end}


def planned_edit(lines: Sequence[str], whole: Span, action: str, text: str) -> tuple[Span, str]:
    """What to replace, and by what.

    Args:
        lines: those of the file.
        whole: the declaration, as its server sees it.
        action: `replace`, `before`, `after` or `delete`.
        text: what to write. It gets the indentation of the symbol, if it has none.
    """
    declared = _whole_declaration(lines, whole)
    top = _first_line(lines, declared.start.line)
    indentation = _indentation(lines[declared.start.line - 1])
    new_text = fitted(text, indentation)
    if action == "replace":
        start = declared.start
        if _DECORATOR.match(text):
            start = Position(top, len(_indentation(lines[top - 1])) + 1)
        return Span(start, _end_with(lines, declared.end, new_text)), new_text[len(indentation) :]
    if action == "before":
        blanks = _blank_lines(lines, top - 1, -1) or _blank_lines(lines, declared.end.line + 1, 1)
        at = Position(top, 1)
        return Span(at, at), new_text + "\n" * (1 + blanks)
    last = declared.end.line
    if action == "after":
        blanks = _blank_lines(lines, last + 1, 1)
        if blanks == 0 or last + blanks >= len(lines):  # blank lines at the end separate nothing
            blanks = _blank_lines(lines, top - 1, -1)
        at = Position(last, len(lines[last - 1]) + 1)
        return Span(at, at), "\n" * (1 + blanks) + new_text
    return _deleted(lines, declared, top), ""


def _whole_declaration(lines: Sequence[str], whole: Span) -> Span:
    """The declaration with the words before it that its server leaves out, such as `export const`."""
    before = lines[whole.start.line - 1][: whole.start.column - 1]
    if not _WORDS_BEFORE.fullmatch(before):
        return whole
    return Span(Position(whole.start.line, len(_indentation(before)) + 1), whole.end)


def _first_line(lines: Sequence[str], line: int) -> int:
    """The first of the lines of decorators and attributes that stand directly above a line."""
    while line > 1 and _DECORATOR.match(lines[line - 2]):
        line -= 1
    return line


def _end_with(lines: Sequence[str], end: Position, text: str) -> Position:
    """The end of what a text replaces: also the `;` behind it, if the text has its own."""
    rest = lines[end.line - 1][end.column - 1 :]
    is_own = text.rstrip().endswith(";") and rest.startswith(";")
    return Position(end.line, end.column + 1) if is_own else end


def _deleted(lines: Sequence[str], declared: Span, top: int) -> Span:
    """Whole lines, if nothing else stands in them, with the blank ones behind it."""
    end = declared.end
    before = lines[declared.start.line - 1][: declared.start.column - 1]
    behind = lines[end.line - 1][end.column - 1 :].strip()
    if before.strip() or behind not in ("", ";", ","):
        return declared
    after = end.line + 1 + (_blank_lines(lines, end.line + 1, 1) if top > 1 else 0)
    if after > len(lines):
        return Span(Position(top, 1), Position(len(lines), len(lines[-1]) + 1))
    return Span(Position(top, 1), Position(after, 1))


def _blank_lines(lines: Sequence[str], line: int, step: int) -> int:
    """How many blank lines follow each other from a line on, up or down."""
    count = 0
    while count < MOST_BLANKS and 1 <= line <= len(lines) and not lines[line - 1].strip():
        count += 1
        line += step
    return count


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def fitted(text: str, indentation: str) -> str:
    """A text with the indentation of the symbol that it replaces or stands beside.

    Models write it with all of its indentation, with none, or with none in the first line only, as it stands
    behind the beginning of a symbol's range.
    """
    first, *rest = text.strip("\n").rstrip().split("\n")
    if first[:1].isspace():
        plain = textwrap.dedent("\n".join([first, *rest]))
        return textwrap.indent(plain, indentation)
    margin = min((len(_indentation(line)) for line in rest if line.strip()), default=0)
    closes = bool(rest) and _CLOSING.match(rest[-1].lstrip()) is not None
    has_own = margin > len(indentation) or (closes and margin == len(indentation))
    if indentation and has_own:
        return "\n".join([indentation + first, *rest])
    return textwrap.indent("\n".join([first, *rest]), indentation)
