"""Finds the comments and strings of a source text, and the whole words that stand in it. Pure.

Where a text can be read in two ways, it counts as code: what is taken for a comment or string is explained,
and a use must not be explained away.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

WordKind = Literal[
    "code",
    "comment",
    "string",  # somewhere in a string
    "quoted",  # a string that is the name alone, or a dotted path that ends with it
]


@dataclass(frozen=True, slots=True)
class TextWord:
    """A whole word: its line and the columns of its line, from 0, and what it stands in."""

    line: int
    start: int
    end: int
    kind: WordKind


@dataclass(frozen=True, slots=True)
class _Syntax:
    """How a family of languages writes comments and strings.

    Attributes:
        token: matches one comment or string; the group `comment` is set for comments, and `code` for what has
            to be read whole but is neither.
        interpolation: matches code inside a string, up to its end.
        has_interpolation: matches the beginning of a string that may have such code.
    """

    token: re.Pattern[str]
    interpolation: re.Pattern[str] | None = None
    has_interpolation: re.Pattern[str] | None = None


def _syntax(*alternatives: str, inner: str = "", prefix: str = "") -> _Syntax:
    token = re.compile("|".join(alternatives), re.MULTILINE)
    if not inner:
        return _Syntax(token)
    return _Syntax(token, re.compile(inner), re.compile(prefix))


_LINE: Final = r"(?P<comment>//[^\n]*|/\*[\s\S]*?\*/)"
_DOUBLE: Final = r'"(?:\\[\s\S]|[^"\\\n])*"'
# an apostrophe behind a letter is one of a text in JSX, a lifetime's end, or a separator of digits
_SINGLE: Final = r"(?<!\w)'(?:\\[\s\S]|[^'\\\n])*'"
_CHARACTER: Final = r"(?<!\w)'(?:\\(?:u\{[^}\n]*\}|[^\n]{1,9}?)|[^'\\\n])'"
_EXPRESSION: Final = r"/(?![*/])(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\\\n\[])+/"
"""A regular expression of JavaScript."""
_PYTHON: Final = _syntax(
    r"(?P<comment>#[^\n]*)",
    r'(?:\b[rRbBuUfFtT]{1,2})?"""(?:\\[\s\S]|[^\\])*?"""',
    r"(?:\b[rRbBuUfFtT]{1,2})?'''(?:\\[\s\S]|[^\\])*?'''",
    rf"(?:\b[rRbBuUfFtT]{{1,2}})?{_DOUBLE}",
    r"(?:\b[rRbBuUfFtT]{1,2})?'(?:\\[\s\S]|[^'\\\n])*'",
    # a text ends with the bracket of an interpolation, if it is cut there by a quote of the same kind
    inner=r"\{\{|\{[^}]*\}?",
    prefix=r"[rR]?[fFtT]",
)
_FORMATTED: Final = re.compile(r"[rR]?[fFtT]")
_SCRIPT: Final = _syntax(
    _LINE,
    _DOUBLE,
    _SINGLE,
    r"`(?:\\[\s\S]|[^`\\])*`",
    # quotes in a regular expression begin no string; behind an operator at the end of a line, it is one, too
    rf"(?:(?:[=(,:;!&|?\[{{~^%*+-]|=>|\breturn)\s*|}}[ \t]*){_EXPRESSION}",
    # at the beginning of a line, it may be a division, and is code
    rf"(?P<code>^[ \t]*{_EXPRESSION})",
    inner=r"\$\{[^}]*\}?",
    prefix="`",
)
_C: Final = _syntax(
    _LINE, r'\b(?:u8|[uUL])?R"(?P<raw>[^()\\\s]{0,16})\([\s\S]*?\)(?P=raw)"', _DOUBLE, _CHARACTER
)
_GO: Final = _syntax(_LINE, _DOUBLE, r"`[^`]*`", _CHARACTER)
_RUST: Final = _syntax(
    _LINE,
    r'\b(?:b|c)?r(?P<raw>#*)"[\s\S]*?"(?P=raw)',
    r'"(?:\\[\s\S]|[^"\\])*"',
    _CHARACTER,
    # the names in braces of a format string are uses
    inner=r"\{\{|\{[^}]*\}?",
    prefix="",
)
_OTHER_C_LIKE: Final = _syntax(_LINE, r'"""[\s\S]*?"""', _DOUBLE, _CHARACTER)
_SHELL: Final = _syntax(r"(?P<comment>(?:^|(?<=\s))#[^\n]*)")
_SYNTAXES: Final[Mapping[str, _Syntax]] = {
    **dict.fromkeys((".py", ".pyi", ".pyx", ".pxd"), _PYTHON),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), _SCRIPT),
    **dict.fromkeys(
        (
            ".c",
            ".h",
            ".cc",
            ".cpp",
            ".cxx",
            ".hh",
            ".hpp",
            ".hxx",
            ".ipp",
            ".inl",
            ".inc",
            ".tpp",
            ".m",
            ".mm",
        ),
        _C,
    ),
    ".go": _GO,
    ".rs": _RUST,
    **dict.fromkeys((".java", ".kt", ".kts", ".cs", ".swift", ".scala", ".dart", ".zig"), _OTHER_C_LIKE),
    **dict.fromkeys((".sh", ".bash", ".yaml", ".yml", ".toml"), _SHELL),
}
"""By the suffix of a file. A text of another language is code throughout."""
_EXPORTS: Final = re.compile(
    r"^__all__\b[^\n=(]*(?:\+?=[ \t]*|\.(?:extend|append)\()[^\n\[(]*[\[(]?[^\])]*", re.MULTILINE
)
"""The names that a Python module exports: strings, but uses."""
_BEFORE_QUOTED: Final = re.compile(r"[A-Za-z]{0,2}['\"`]+(?:\w+\.)*")
_AFTER_QUOTED: Final = re.compile(r"['\"`]")


@dataclass(frozen=True, slots=True)
class _Span:
    """A comment or string, from its first character up to `end`."""

    start: int
    end: int
    is_comment: bool


def find_words(lines: Sequence[str], word: str, suffix: str) -> list[TextWord]:
    """The places of a whole word in a text, in order.

    Args:
        lines: those of the file, without their ends.
        word: a name, e.g. `push`; it is compared with its case.
        suffix: of the file, e.g. `.py`.
    """
    text = "\n".join(lines)
    matches = list(word_pattern(word).finditer(text))
    if not matches:
        return []
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    spans = _text_spans(text, suffix)
    begins = [span.start for span in spans]
    words = []
    for match in matches:
        number = bisect_right(starts, match.start()) - 1
        span = spans[at] if (at := bisect_right(begins, match.start()) - 1) >= 0 else None
        kind = _kind(text, match, span)
        words.append(TextWord(number, match.start() - starts[number], match.end() - starts[number], kind))
    return words


def without_comments(text: str, suffix: str) -> str:
    """A text without its comments."""
    parts, end = [], 0
    for span in _text_spans(text, suffix):
        if span.is_comment:
            parts.append(text[end : span.start])
            end = span.end
    return "".join([*parts, text[end:]])


def blanked(lines: Sequence[str], suffix: str) -> str:
    """A text of the same length in which comments and strings are blanks, but for the ends of lines."""
    text = "\n".join(lines)
    parts, end = [], 0
    for span in _text_spans(text, suffix):
        parts += [text[end : span.start], re.sub(r"[^\n]", " ", text[span.start : span.end])]
        end = span.end
    return "".join([*parts, text[end:]])


def word_pattern(word: str) -> re.Pattern[str]:
    """Matches the name where no letter, digit, `_` or `$` continues it."""
    return re.compile(rf"(?<![\w$]){re.escape(word)}(?![\w$])")


def _kind(text: str, match: re.Match[str], span: _Span | None) -> WordKind:
    if span is None or match.start() >= span.end:
        return "code"
    if span.is_comment:
        return "comment"
    before, after = text[span.start : match.start()], text[match.end() : span.end]
    is_whole = _BEFORE_QUOTED.fullmatch(before) and _AFTER_QUOTED.match(after)
    return "quoted" if is_whole else "string"


def _text_spans(text: str, suffix: str) -> list[_Span]:
    """The comments and strings of a text, in order, without the code that stands in strings."""
    syntax = _SYNTAXES.get(suffix)
    if syntax is None:
        return []
    spans: list[_Span] = []
    code_until = 0
    for token in syntax.token.finditer(text):
        if token.start() >= code_until:
            spans += _parts(token, syntax)
            if _is_cut(token, syntax):
                line_end = text.find("\n", token.end())
                code_until = len(text) if line_end < 0 else line_end
    if syntax is not _PYTHON:
        return spans
    exports = [match.span() for match in _EXPORTS.finditer(text)]
    return [
        span
        for span in spans
        if span.is_comment or not any(begin <= span.start < end for begin, end in exports)
    ]


def _is_cut(token: re.Match[str], syntax: _Syntax) -> bool:
    """Whether a Python string is cut in the middle of code, by a quote of its own kind there."""
    if syntax is not _PYTHON or not _FORMATTED.match(token.group()):
        return False
    last = token.group().rpartition("{")[2]
    return last != token.group() and "}" not in last


def _parts(token: re.Match[str], syntax: _Syntax) -> Iterator[_Span]:
    """A comment or string, cut where code stands in it."""
    start, end = token.span()
    if token.group("comment") is not None:
        yield _Span(start, end, is_comment=True)
        return
    if token.groupdict().get("code") is not None:
        return
    prefix = syntax.has_interpolation
    if syntax.interpolation is None or prefix is None or not prefix.match(token.group()):
        yield _Span(start, end, is_comment=False)
        return
    for inner in syntax.interpolation.finditer(token.string, start, end):
        if inner.group() != "{{":
            yield _Span(start, inner.start(), is_comment=False)
            start = inner.end()
    yield _Span(start, end, is_comment=False)
