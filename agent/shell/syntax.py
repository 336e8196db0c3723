"""Parses shell text with the Bash grammar of tree-sitter into simple commands with literal words."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES: Final = 64 * 1024
"""Longer texts count as not parsable."""
_UNDECIDED: Final = re.compile(r"(?<!\\)[*?\[{~]")
"""Unquoted characters by which a word becomes other words."""
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r'\\([$`"\\\n])')
_SIMPLE_ANSI: Final = re.compile(r"\A[^\\]*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command: its words after quotes are removed. None stands for a word that only the shell knows."""

    words: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Parsed:
    """All simple commands of a text, nested ones too. `is_whole`: the text has no syntax errors."""

    commands: tuple[SimpleCommand, ...]
    is_whole: bool


def parse(text: str) -> Parsed:
    """Parse a shell text; never raises."""
    if "\0" in text:
        return Parsed((), is_whole=False)
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > MAX_BYTES:
        return Parsed((), is_whole=False)
    root = _parser().parse(encoded).root_node
    found = tuple(_command(node) for node in _walk(root) if node.type == "command")
    return Parsed(found, is_whole=not root.has_error)


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
    words: list[str | None] = []
    for child in node.named_children:
        if child.type == "command_name":
            words.append(_word(child.named_children[0] if child.named_children else child))
        elif child.type not in {"variable_assignment", "file_redirect", "herestring_redirect", "comment"}:
            words.append(_word(child))
    return SimpleCommand(tuple(words))


def _word(node: Node) -> str | None:
    """The text of a word if it is the same whatever the shell knows; else None."""
    text = (node.text or b"").decode("utf-8", "replace")
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


def _unescaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]
