"""Parses shell text with the Bash grammar of tree-sitter into simple commands with literal words."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES: Final = 64 * 1024
"""Longer texts count as not parsable."""
_UNDECIDED: Final = re.compile(r"(?<!\\)[*?\[{~]")
"""Unquoted characters by which a word becomes other words."""
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')
_SILENT: Final = re.compile(r"(?:\s|!|nohup|command|timeout\s+\S+)*(?::|true)?\s*")
_ASSIGNS: Final = frozenset({"variable_assignment", "for_statement"})
"""Both begin with the name of a variable, the second behind a word."""
_SIMPLE_ANSI: Final = re.compile(r"\A[^\\]*\Z", re.DOTALL)


class Word(NamedTuple):
    """A word: after quotes are removed, or None if only the shell knows it; and as it is written."""

    value: str | None
    text: str


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command: its words after quotes are removed. None stands for a word that only the shell knows."""

    typed: tuple[Word, ...]

    @property
    def words(self) -> tuple[str | None, ...]:
        """The words alone."""
        return tuple(word.value for word in self.typed)


class Redirect(NamedTuple):
    """A redirection to or from a place. `is_empty`: nothing is printed to it; it only empties a file."""

    writes: bool
    is_empty: bool
    target: Word


@dataclass(frozen=True, slots=True)
class Parsed:
    """All simple commands of a text, nested ones too. `is_whole`: the text has no syntax errors.

    `assignments` are words `NAME=value`, wherever they stand.
    """

    commands: tuple[SimpleCommand, ...]
    is_whole: bool
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[Word, ...] = ()


def parse(text: str) -> Parsed:
    """Parse a shell text; never raises."""
    if "\0" in text:
        return Parsed((), is_whole=False)
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > MAX_BYTES:
        return Parsed((), is_whole=False)
    root = _parser().parse(encoded).root_node
    nodes = tuple(_walk(root))
    return Parsed(
        tuple(_command(node) for node in nodes if node.type == "command"),
        not root.has_error,
        tuple(_redirect(node) for node in nodes if node.type == "file_redirect"),
        tuple(
            Word(None, _text(node).removeprefix("for ").lstrip()) for node in nodes if node.type in _ASSIGNS
        ),
    )


@functools.cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _walk(root: Node) -> Iterator[Node]:
    """All nodes, without recursion: a text may nest as deep as it likes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _command(node: Node) -> SimpleCommand:
    words: list[Word] = []
    for child in node.named_children:
        if child.type == "command_name":
            words.append(_typed(child.named_children[0] if child.named_children else child))
        elif child.type not in {"variable_assignment", "file_redirect", "herestring_redirect", "comment"}:
            words.append(_typed(child))
    return SimpleCommand(tuple(words))


def _redirect(node: Node) -> Redirect:
    place = node.child_by_field_name("destination")
    writes = any(not child.is_named and ">" in _text(child) for child in node.children)
    return Redirect(writes, _prints_nothing(node.parent), Word(None, "") if place is None else _typed(place))


def _prints_nothing(statement: Node | None) -> bool:
    """Whether a redirected statement is nothing, or `:`, so that it only empties what it is redirected to."""
    if statement is None or statement.type not in {"redirected_statement", "command_substitution"}:
        return False
    body = statement.child_by_field_name("body")
    last = "" if body is None else re.split(r"[;&|\n]", _text(body).rstrip("; \n"))[-1]
    return _SILENT.fullmatch(last) is not None


def _typed(node: Node) -> Word:
    return Word(_word(node), _text(node))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _word(node: Node) -> str | None:
    """The text of a word if it is the same whatever the shell knows; else None."""
    text = _text(node)
    match node.type:
        case "word" | "number":
            return None if _UNDECIDED.search(text) else _ESCAPED.sub(_unescaped, text)
        case "raw_string":
            return text[1:-1]
        case "ansi_c_string":
            content = text[2:-1]
            return content if _SIMPLE_ANSI.match(content) else None
        case "string":
            return _quoted(node, text)
        case "concatenation":
            parts = [_word(child) for child in node.children]
            return None if None in parts else "".join(part for part in parts if part is not None)
    return None


def _quoted(node: Node, text: str) -> str | None:
    if any(child.type != "string_content" for child in node.named_children):
        return None
    return _ESCAPED_IN_QUOTES.sub(_unescaped, text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]
