"""Parses JSON with comments into nodes that know their place in the text. Pure.

Unlike a usual parser it keeps where each member begins and ends, so that one member can be changed and every
other character stays. What it does not know is a problem with a line, never a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lm_tools_bridge.text.syntax_problems import SyntaxProblem

MAX_DEPTH: Final = 100
"""The parser calls itself for each level: 250 objects in each other are more than Python's stack holds
(measured), of which callers need a part. Files of clients have about six levels."""
MAX_EXPLAINED: Final = 256 * 1024
"""Characters of a text whose mistake is explained: a million would take about a second."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MAX_NUMBER: Final = 400
"""Letters of a number: the largest double has 309 digits, and Python needs quadratic time to read longer
ones."""
# an unterminated string does not match, and is found in one pass because the quantifier is possessive
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_LINE_COMMENT: Final = re.compile(r"//[^\r\n]*")
_BLOCK_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile("true|false|null")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a client's parser accepts beyond JSON."""

    comments: bool = False
    trailing_commas: bool = False


JSON: Final = Dialect()


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: the name, where it begins, its value, and where a comma after it ends."""

    name: str
    start: int
    value: Node
    comma_end: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: `text[start:end]`. `members` are those of an object."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = ()

    def member(self, name: str) -> Member | None:
        """The member of that name."""
        return next((member for member in self.members if member.name == name), None)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text: its root, and the places of its comments in their order."""

    root: Node
    comments: tuple[tuple[int, int], ...]


class _Broken(Exception):
    """The text cannot be parsed, at an offset."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at = at


def parse(text: str, dialect: Dialect = JSON) -> Document | SyntaxProblem:
    """The document in a text without byte order mark, or where it is broken."""
    parser = _Parser(text, dialect)
    try:
        return parser.document()
    except _Broken as broken:
        column = broken.at - text.rfind("\n", 0, broken.at)
        return SyntaxProblem(text.count("\n", 0, broken.at) + 1, str(broken), column)


def json_problem(text: str, *, comments: bool = False) -> SyntaxProblem:
    """What is wrong with a text that another parser refused.

    Args:
        text: without a byte order mark.
        comments: whether that parser accepts comments and trailing commas.
    """
    if len(text) > MAX_EXPLAINED:
        return SyntaxProblem(None, "it is not valid JSON")
    document = parse(text, Dialect(comments=comments, trailing_commas=comments))
    return document if isinstance(document, SyntaxProblem) else SyntaxProblem(None, "it is not valid JSON")


@dataclass(slots=True)
class _Parser:
    text: str
    dialect: Dialect
    at: int = 0
    depth: int = 0
    comments: list[tuple[int, int]] = field(default_factory=list)

    def document(self) -> Document:
        self._skip()
        root = self._value()
        self._skip()
        if self.at < len(self.text):
            raise _Broken(self.at, "there is text after the end of the value")
        return Document(root, tuple(self.comments))

    def _skip(self) -> None:
        """Go past blanks and comments."""
        while True:
            blanks = _BLANKS.match(self.text, self.at)
            self.at = blanks.end() if blanks else self.at
            if not self._here("/"):
                return
            comment = _LINE_COMMENT.match(self.text, self.at) or _BLOCK_COMMENT.match(self.text, self.at)
            if comment is None:
                raise _Broken(self.at, "a comment does not end, or a / is out of place")
            if not self.dialect.comments:
                raise _Broken(self.at, "comments are not accepted here")
            self.comments.append(comment.span())
            self.at = comment.end()

    def _here(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _value(self) -> Node:
        if self._here("{"):
            return self._nested(self._object)
        if self._here("["):
            return self._nested(self._array)
        start = self.at
        value = self._string() if self._here('"') else self._word_or_number()
        return Node("scalar", start, self.at, value)

    def _nested(self, read: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Broken(self.at, f"values are nested deeper than {MAX_DEPTH} levels")
        node = read()
        self.depth -= 1
        return node

    def _object(self) -> Node:
        start = self.at
        self._open()
        members: list[Member] = []
        values: dict[str, Any] = {}
        while not self._here("}"):
            begin, name, value = self._named_value()
            if name in values:
                raise _Broken(begin, f"the member {json.dumps(name)} is there twice")
            values[name] = value.value
            members.append(Member(name, begin, value, self._comma("}")))
        self.at += 1
        return Node("object", start, self.at, values, tuple(members))

    def _array(self) -> Node:
        start = self.at
        self._open()
        items: list[Any] = []
        while not self._here("]"):
            items.append(self._value().value)
            self._comma("]")
        self.at += 1
        return Node("array", start, self.at, items)

    def _open(self) -> None:
        self.at += 1
        self._skip()

    def _named_value(self) -> tuple[int, str, Node]:
        start = self.at
        if not self._here('"'):
            raise self._unexpected("the name of a member must be in double quotes")
        name = self._string()
        self._skip()
        if not self._here(":"):
            raise self._unexpected("a colon is missing")
        self._open()
        return start, name, self._value()

    def _comma(self, closing: str) -> int | None:
        """Step over the comma that follows, and return its end; None if the bracket follows."""
        self._skip()
        if not self._here(","):
            if not self._here(closing):
                raise self._unexpected("a comma is missing")
            return None
        end = self.at + 1
        self._open()
        if self._here(closing) and not self.dialect.trailing_commas:
            raise _Broken(end - 1, f"there is a comma before {closing}")
        return end

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise _Broken(self.at, "a string does not end in its line, or has an invalid escape")
        self.at = match.end()
        value: str = json.loads(match[0])
        return value

    def _word_or_number(self) -> Any:
        match = _WORD.match(self.text, self.at) or _NUMBER.match(self.text, self.at)
        if match is None or len(match[0]) > _MAX_NUMBER:
            raise self._unexpected("this is no JSON value")
        self.at = match.end()
        return json.loads(match[0])

    def _unexpected(self, text: str) -> _Broken:
        if self.at < len(self.text):
            return _Broken(self.at, text)
        return _Broken(len(self.text.rstrip()), "the text ends too early")
