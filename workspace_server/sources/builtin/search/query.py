"""Defines the queries and results that both search engines share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from workspace_server.sources.builtin.search.patterns import PathFilter
from workspace_server.sources.builtin.search.tree import Tree

HEAD_BYTES: Final = 8192
"""How much of a matching line is kept; previews are cut from it."""

PREVIEW_CHARACTERS: Final = 500
_LEAD: Final = 100

T = TypeVar("T")


class EngineUnavailable(Exception):
    """The engine cannot serve this search; the other one must."""


class BadRegex(Exception):
    """The pattern is no regular expression: `position` (0-based, None if unknown) and `reason`."""

    def __init__(self, reason: str, position: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How to search.

    `ripgrep`: path of the program; None looks for it, "" does without. `deadline`: seconds after which
    a search answers with what it has. `environ`: where PATH and the user's git configuration are.
    """

    ripgrep: str | None = None
    deadline: float = 30.0
    environ: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: a folder's tree and the filter of its paths."""

    tree: Tree
    wanted: PathFilter


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What to look for in lines. `text` is a regular expression iff `regex`; never contains a line end."""

    text: str
    regex: bool
    case_sensitive: bool = False

    @property
    def ignore_case(self) -> bool:
        """Smart case: without `case_sensitive`, a query without capitals matches any case."""
        letters = re.sub(r"\\(?:[pP](?:\{[^}]*\}|.)|.)", "", self.text) if self.regex else self.text
        return not self.case_sensitive and not any(char.isupper() for char in letters)


@dataclass(frozen=True, slots=True)
class Line:
    """One matching line.

    `relative`: the file within its folder; `number` from 1; `head`: the first `HEAD_BYTES` of the line, as
    UTF-8; `longer`: whether the line goes on after it; `start`: byte offset of the first match;
    `occurrences`: matches in the line that are not empty, at least 1.
    """

    relative: str
    number: int
    head: bytes
    longer: bool
    start: int
    occurrences: int

    @property
    def preview(self) -> str:
        """The line, of a long one `PREVIEW_CHARACTERS` around the first match, cut ends marked `…`."""
        text = self.head.decode("utf-8", "replace").rstrip("\r\n")
        if len(text) <= PREVIEW_CHARACTERS and not self.longer:
            return text
        at = len(self.head[: self.start].decode("utf-8", "replace")) if self.start < len(self.head) else 0
        begin = max(0, min(at - _LEAD, len(text) - PREVIEW_CHARACTERS))
        cut = text[begin : begin + PREVIEW_CHARACTERS]
        more = self.longer or begin + len(cut) < len(text)
        return ("…" if begin else "") + cut + ("…" if more else "")


@dataclass(slots=True)
class Findings(Generic[T]):
    """What an engine found so far, in order; what is there when it is cancelled counts."""

    items: list[T] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TextMatch:
    """One matching line of the workspace."""

    path: Path
    line: int
    preview: str
    occurrences: int
