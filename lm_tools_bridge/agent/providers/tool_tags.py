"""Tells a model its tools in text, and finds `<tool>` blocks in a reply that arrives in pieces. Pure.

A block ends at the first `</tool>` outside of a JSON string. Tags in code, fenced or between backticks, are
text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.agent.messages import Call, Tool
from lm_tools_bridge.agent.providers.dialects.dialect import schema_of
from lm_tools_bridge.agent.providers.dialects.schema_changes import referred
from lm_tools_bridge.agent.tool_source import read_arguments

_SAMPLE_TOOL: Final = "calculator"
_SAMPLE: Final[Mapping[str, Any]] = {"expression": "2 + 2"}
_PLACEHOLDERS: Final[Mapping[str, Any]] = {
    "string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None,
}  # fmt: skip


def tools_block(tools: Sequence[Tool]) -> str:
    """The tools with their schemas, and a sample of a call; empty if there are no tools."""
    if not tools:
        return ""
    described = "\n\n".join(_described(tool) for tool in tools)
    sample = next((tool for tool in tools if tool.name == _SAMPLE_TOOL), tools[0])
    arguments = _SAMPLE if sample.name == _SAMPLE_TOOL else _placeholders(schema_of(sample))
    block = tag(sample.name, arguments)
    return f"Available tools:\n\n{described}\n\nTo use a tool, respond with:\n{block}"


def tag(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as a model writes it."""
    return f"<tool>\n{_json({'name': name, 'arguments': arguments})}\n</tool>"


def with_calls(text: str, calls: Sequence[Call]) -> str:
    """A reply as the model wrote it: its text, then its calls."""
    return "\n\n".join([*([text] if text else []), *(tag(call.name, call.arguments or {}) for call in calls)])


def _described(tool: Tool) -> str:
    head = f"{tool.name}: {tool.description}" if tool.description else f"{tool.name}:"
    return f"{head}\nInput schema: {_json(schema_of(tool))}"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _placeholders(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each required argument, or for each if none is required."""
    properties = schema.get("properties")
    members = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    names = [name for name in required if name in members] if isinstance(required, list) else []
    return {name: _placeholder(members[name], schema) for name in names or members}


def _placeholder(part: object, root: Mapping[str, Any]) -> Any:
    if isinstance(part, Mapping) and "$ref" in part:
        part = referred(root, part["$ref"])
    if not isinstance(part, Mapping):
        return _PLACEHOLDERS["string"]
    if "const" in part:
        return part["const"]
    values = part.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    kind = part.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    return _PLACEHOLDERS.get(kind, _PLACEHOLDERS["string"]) if isinstance(kind, str) else "text"


OPEN: Final = "<tool>"
CLOSE: Final = "</tool>"
UNKNOWN: Final = "tool"
"""The name of a call whose block has none that can be read."""
_MEMBERS: Final = frozenset({"name", "arguments"})
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_STEP: Final = re.compile(r'"|</tool>|<tool>')
_STEP_IN_STRING: Final = re.compile(r'["\n]|\\.', re.DOTALL)
_NAME: Final = re.compile(r'"name"\s*:\s*"([^"\\]{1,128})"')


@dataclass(frozen=True, slots=True)
class Block:
    """What stood in one block. `closed`: its end tag was there."""

    content: str
    closed: bool = True


@dataclass(frozen=True, slots=True)
class TaggedCall:
    """What a block asks for: as `Call`, without an id."""

    name: str
    arguments: Mapping[str, Any] | None
    problem: str | None = None


class ToolTags:
    """Reads one reply."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._text = ""  # not yet known to be text
        self._open: str | None = None  # the content of a block so far
        self._scanned = 0  # how much of it was looked at
        self._in_string = False
        self._fences = _Fences()
        self._blanks = ""  # between the shown text and what follows
        self._after_block = False
        self._shown = False

    def feed(self, piece: str) -> str:
        """The text to show after the next piece of the reply."""
        visible = ""
        while piece:
            if self._open is None:
                text, piece = self._in_text(piece)
                visible += text
            else:
                text, piece = self._in_block(piece)
                visible += text
        return visible

    def end(self) -> str:
        """The rest of the text to show. `blocks` is complete then."""
        visible = ""
        while self._open is not None and self._in_string and CLOSE in self._open:
            # a string without an end swallowed the end tag
            content, _, remainder = self._open.partition(CLOSE)
            self._close(Block(content))
            visible += self.feed(remainder)
        if self._open is not None:
            visible += self._end_block(self._open)
        visible += self._show(self._text)
        self._text = ""
        return visible if self._after_block else visible + self._blanks

    def _end_block(self, content: str) -> str:
        """End a block that has no end tag behind its object; the rest is text, or all without an object."""
        if not content.lstrip().startswith("{"):
            self._open = None
            return self._show(OPEN + content)
        end = _balanced_end(content)
        self._close(Block(content[:end], closed=False))
        return self._show(content[end:]) if end is not None else ""

    def _in_text(self, piece: str) -> tuple[str, str]:
        """The text to show, and what follows the tag that begins a block."""
        text, self._text = self._text + piece, ""
        position = text.find(OPEN)
        visible = ""
        while position >= 0:
            before, text = text[:position], text[position + len(OPEN) :]
            is_code = self._fences.contain(before) or before.endswith("`")
            visible += self._show(before)
            if not is_code:
                self._open, self._scanned, self._in_string = "", 0, False
                return visible, text
            self._fences.feed(OPEN)
            visible += self._show(OPEN)
            position = text.find(OPEN)
        tag_length = _possible_tag(text)
        self._text = text[len(text) - tag_length :]
        text = text[: len(text) - tag_length]
        self._fences.feed(text)
        return visible + self._show(text), ""

    def _in_block(self, piece: str) -> tuple[str, str]:
        """The text to show, and what of the reply follows the block, as far as it ended."""
        content = (self._open or "") + piece
        self._open = content
        while True:
            step = (_STEP_IN_STRING if self._in_string else _STEP).search(content, self._scanned)
            if step is None:
                # a tag or an escape may be half there
                tail_length = _possible_escape(content) if self._in_string else _possible_tag(content)
                self._scanned = max(self._scanned, len(content) - tail_length)
                return "", ""
            self._scanned = step.end()
            token = step[0]
            if token in {CLOSE, OPEN}:
                return self._end_at(step.start(), token), content[step.end() :]
            if token in {'"', "\n"}:
                self._in_string = not self._in_string

    def _end_at(self, place: int, token: str) -> str:
        """End the block at a tag, the end tag or one that begins the next; without an object it was text."""
        content = (self._open or "")[:place]
        visible = ""
        if token == OPEN and not content.lstrip().startswith("{"):
            self._open, self._scanned, self._in_string = None, 0, False
            visible = self._show(OPEN + content)
        else:
            self._close(Block(content, closed=token == CLOSE))
        if token == OPEN:
            self._open = ""
        return visible

    def _close(self, block: Block) -> None:
        self.blocks.append(block)
        self._open, self._scanned, self._in_string = None, 0, False
        self._blanks, self._after_block = "", True

    def _show(self, text: str) -> str:
        """The text without the blanks around blocks; blanks wait for what follows them."""
        if self._after_block:
            text = text.lstrip()
            if not text:
                return ""
            self._after_block = False
            self._blanks = "\n\n" if self._shown else ""
        text = self._blanks + text
        visible = text.rstrip()
        self._blanks = text[len(visible) :]
        self._shown = self._shown or bool(visible)
        return visible


class _Fences:
    """Tells whether a place in the text lies in a fenced block of code (CommonMark §4.5)."""

    def __init__(self) -> None:
        self._line = ""
        self._fence = ""

    def feed(self, text: str) -> None:
        """The next piece of the text."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._fence = self._after(line)

    def contain(self, text: str) -> bool:
        """Take the next piece of the text; whether its end lies in code."""
        self.feed(text)
        return bool(self._fence or self._after(self._line))

    def _after(self, line: str) -> str:
        match = _FENCE.match(line)
        if match is None:
            return self._fence
        mark, info = match.groups()
        if not self._fence:
            return "" if mark[0] == "`" and "`" in info else mark
        closes = mark[0] == self._fence[0] and len(mark) >= len(self._fence) and not info.strip()
        return "" if closes else self._fence


def calls_of(blocks: list[Block], *, cut: bool) -> list[TaggedCall]:
    """The calls of a reply. Only its last block may lack its end tag or `}`, unless the reply was cut."""
    return [
        _call(block, completes=index == len(blocks) and not cut)
        for index, block in enumerate(blocks, start=1)
    ]


def _call(block: Block, *, completes: bool) -> TaggedCall:
    content = block.content.strip()
    if not block.closed and not completes:
        return TaggedCall(_name_in(content), None, "Error: the <tool> block has no end tag")
    members, problem = read_arguments(content)
    if problem is not None and completes:
        repaired = read_arguments(content + "}" * _missing_braces(content))
        members, problem = repaired if repaired[0] is not None else (members, problem)
    if members is None:
        return TaggedCall(_name_in(content), None, problem)
    name, unknown = members.get("name"), sorted(set(members) - _MEMBERS)
    if not isinstance(name, str) or not name:
        return TaggedCall(UNKNOWN, None, "Error: a <tool> block needs a name")
    if unknown:
        return TaggedCall(name, None, f"Error: a <tool> block has name and arguments only, not {unknown[0]}")
    arguments, problem = read_arguments(members.get("arguments"))
    return TaggedCall(name, arguments, problem)


def _name_in(content: str) -> str:
    match = _NAME.search(content)
    return match[1] if match else UNKNOWN


def _balanced_end(content: str) -> int | None:
    """The place behind the first object, or None if it does not end."""
    return next((place for place, depth in _depths(content) if depth == 0), None)


def _missing_braces(content: str) -> int:
    """How many `}` the content lacks; 0 inside of a string, which cannot be completed."""
    depths = _depths(content)
    return max(depths[-1][1], 0) if depths else 0


def _depths(content: str) -> list[tuple[int, int]]:
    """The place behind each brace outside of strings, and the depth there; 0 for a string without an end."""
    depths: list[tuple[int, int]] = []
    depth = start = 0
    pattern, inside = re.compile(r'[{}"]'), re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)
    while (step := pattern.search(content, start)) is not None:
        start = step.end()
        if step[0] == '"':
            string = inside.match(content, start)
            if string is None:
                return [*depths, (len(content) + 1, 0)]
            start = string.end()
            continue
        depth += 1 if step[0] == "{" else -1
        depths.append((start, depth))
    return depths


def _possible_tag(text: str) -> int:
    """How many characters at the end may begin a tag."""
    for length in range(min(len(text), len(CLOSE) - 1), 0, -1):
        if OPEN.startswith(text[-length:]) or CLOSE.startswith(text[-length:]):
            return length
    return 0


def _possible_escape(text: str) -> int:
    return (len(text) - len(text.rstrip("\\"))) % 2
