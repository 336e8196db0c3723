"""Finds code that a condition can leave out of what a server reads: `#if`, `cfg`, `sys.platform`. Pure.

Whether a condition holds is not evaluated: it is told only of words that the server says nothing about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.code_intelligence.tools.word_check.source_text import blanked

MAX_CONDITION: Final = 80
"""Characters of a condition that a sentence shows."""
C_SUFFIXES: Final = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".ipp", ".inl", ".inc", ".tpp", ".m", ".mm"}
)
_DIRECTIVE: Final = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b\s*(.*)")
_DEFINE: Final = re.compile(r"\s*#\s*define\s+(\w+)")
_CFG: Final = re.compile(r"#(!?)\[\s*cfg\s*\(")
_PLATFORM: Final = re.compile(
    r"(\s*)(if|elif|assert)\b.*\b(?:sys\.platform|sys\.version_info|os\.name|platform\.system\(\)|TYPE_CHECKING)\b"
)
_OTHERWISE: Final = re.compile(r"\s*(?:else|elif\b.*)\s*:")


@dataclass(frozen=True, slots=True)
class Condition:
    """Lines, from 0, up to `end`, which it does not contain, and the condition under which they count."""

    start: int
    end: int
    text: str


def find_conditions(lines: Sequence[str], suffix: str) -> list[Condition]:
    """The conditional parts of a file, the outermost first.

    Args:
        lines: those of the file.
        suffix: e.g. `.c`.
    """
    if suffix in C_SUFFIXES:
        return sorted(_c_conditions(lines), key=lambda each: each.start)
    if suffix == ".rs":
        return list(_rust_conditions(lines))
    if suffix in {".py", ".pyi"}:
        return list(_python_conditions(lines))
    return []


def condition_at(conditions: Sequence[Condition], line: int) -> str:
    """The innermost condition of a line, from 0; empty if it has none."""
    around = [each for each in conditions if each.start <= line < each.end]
    return min(around, key=lambda each: each.end - each.start).text if around else ""


def _c_conditions(lines: Sequence[str]) -> Iterator[Condition]:
    opened: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        match = _DIRECTIVE.match(line) if "#" in line else None
        if match is None:
            continue
        word, rest = match[1], match[2].partition("//")[0].partition("/*")[0].strip()
        if word in {"if", "ifdef", "ifndef"}:
            opened.append((number, _shorten_text(f"#{word} {rest}")))
        elif opened:
            start, text = opened.pop()
            if not _is_guard(lines, start, number):
                yield Condition(start + 1, number, text)
            if word != "endif":
                base = text.removeprefix("#else of ")
                opened.append(
                    (number, f"#else of {base}" if word == "else" else _shorten_text(f"#{word} {rest}"))
                )


def _is_guard(lines: Sequence[str], start: int, end: int) -> bool:
    """Whether a condition keeps a header from being read twice: it defines the name that it asks for."""
    directive = _DIRECTIVE.match(lines[start])
    following = next((line for line in lines[start + 1 : end] if line.strip()), "")
    define = _DEFINE.match(following)
    return (
        directive is not None
        and define is not None
        and directive[1] in {"ifndef", "if"}
        and (define[1] in directive[2])
    )


def _rust_conditions(lines: Sequence[str]) -> Iterator[Condition]:
    text = blanked(lines, ".rs")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for match in _CFG.finditer(text):
        first = text.count("\n", 0, match.start())
        close = _closing(text, text.find("[", match.start()), "[]")
        # strings are blank in the text that is searched, but not in the file
        attribute = _shorten_text("\n".join(lines)[match.start() : close + 1])
        end = len(lines) if match[1] else text.count("\n", 0, _item_end(text, close + 1)) + 1
        yield Condition(first, end, attribute)


def _item_end(text: str, at: int) -> int:
    """Where the item behind an attribute ends: at its `;`, its `,` or its closing brace."""
    for match in re.compile(r"[;,{(\[]").finditer(text, at):
        if match.start() < at:
            continue
        if match[0] in ";,":
            return match.start()
        if match[0] == "{":
            return _closing(text, match.start(), "{}")
        at = _closing(text, match.start(), {"(": "()", "[": "[]"}[match[0]]) + 1
    return len(text)


def _closing(text: str, at: int, pair: str) -> int:
    """The place of the bracket that closes the one at `at`; the end of the text without one."""
    depth = 0
    for match in re.compile(f"[{re.escape(pair)}]").finditer(text, at):
        depth += 1 if match[0] == pair[0] else -1
        if not depth:
            return match.start()
    return len(text)


def _python_conditions(lines: Sequence[str]) -> Iterator[Condition]:
    for number, line in enumerate(lines):
        match = _PLATFORM.match(line)
        if match is None:
            continue
        indent, text = len(match[1]), _shorten_text(line.strip().rstrip(":"))
        if match[2] == "assert":
            yield Condition(number + 1, _block_end(lines, number + 1, indent - 1), text)
            continue
        end = _block_end(lines, number + 1, indent)
        yield Condition(number + 1, end, text)
        while end < len(lines) and _indent(lines[end]) == indent and _OTHERWISE.match(lines[end]):
            begin, end = end + 1, _block_end(lines, end + 1, indent)
            yield Condition(begin, end, f"else of {text}")


def _block_end(lines: Sequence[str], start: int, indent: int) -> int:
    """The first line from `start` on that is not indented deeper."""
    for number in range(start, len(lines)):
        line = lines[number]
        if line.strip() and not line.lstrip().startswith("#") and _indent(line) <= indent:
            return number
    return len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _shorten_text(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_CONDITION else words[:MAX_CONDITION] + "…"
