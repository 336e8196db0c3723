"""Sets and removes one member in the text of a JSON file, and keeps every other character. Pure.

Each change is checked by parsing the result: it must have the old value with
that change, and all comments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.client_setup.refusals import FormProblem
from lm_tools_bridge.text.jsonc_parser import JSON, Dialect, Document, Member, Node, parse
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

Problem = SyntaxProblem | FormProblem
_BY_HAND: Final = FormProblem("unsupported_form", "is written in a form that cannot be changed safely")


def value_at(text: str, path: Sequence[str], dialect: Dialect = JSON) -> Any | Problem:
    """The value at a path of names; None if it is missing, or the text is empty."""
    if not text.strip():
        return None
    document = parse(text, dialect)
    if isinstance(document, SyntaxProblem):
        return document
    node: Node | None = document.root
    for depth, name in enumerate(path):
        if node is None:
            return None
        if node.kind != "object":
            return _no_object(path[:depth])
        member = node.member(name)
        node = member.value if member else None
    return node.value if node else None


def with_member(text: str, path: Sequence[str], value: Any, dialect: Dialect = JSON) -> str | Problem:
    """The text with a value at a path of names; objects on the way are made where they are missing."""
    if not text.strip():
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False) + "\n"
    document = parse(text, dialect)
    if isinstance(document, SyntaxProblem):
        return document
    place = _deepest(document.root, path)
    if isinstance(place, FormProblem):
        return place
    node, depth = place
    member = node.member(path[depth])
    nested_value = _nested(path[depth + 1 :], value)
    style = _Style(text, document.root)
    expected = _with(document.root.value, path, value)
    if member is None:
        changed = _inserted(style, document, node, path[depth], nested_value)
        return _checked(changed, expected, _outside(text, document, 0, 0), dialect)
    comments = _outside(text, document, member.value.start, member.value.end)
    return _checked(_replaced(style, member, nested_value), expected, comments, dialect)


def without_member(text: str, path: Sequence[str], dialect: Dialect = JSON) -> str | Problem:
    """The text without the member at a path of names, which must exist."""
    document = parse(text, dialect)
    if isinstance(document, SyntaxProblem):
        return document
    place = _deepest(document.root, path)
    if isinstance(place, FormProblem):
        return place
    node, depth = place
    member = node.member(path[depth])
    if member is None:
        return _BY_HAND
    changed, expected = _removed(text, document, node, member), _without(document.root.value, path)
    comments = _outside(text, document, member.start, member.value.end)
    return _checked(changed, expected, comments, dialect)


class _Style:
    """How a text is indented and broken into lines."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        at = text.find("\n")
        self.newline = "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"
        self.broken = "\n" in text[root.start : root.end]
        first = root.members[0] if root.members else None
        own = self.indent_before(first.start) if first else None
        base = self.line_indent(root.start)
        self.unit = own.removeprefix(base) if own and own != base else "  "

    def line_indent(self, at: int) -> str:
        """The blanks at the beginning of the line of an offset."""
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def indent_before(self, at: int) -> str | None:
        """The blanks before an offset, if nothing else stands before it in its line."""
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:at]
        return line if start and not line.strip(" \t") else None

    def lines(self, value: Any, indent: str) -> str:
        """A value over several lines; those after the first begin with `indent`."""
        text = json.dumps(value, indent=self.unit, ensure_ascii=False)
        return text.replace("\n", self.newline + indent)

    def one_line(self, value: Any, near: Member | None) -> str:
        """A value in one line, with blanks where `near` has them."""
        separators = (",", ":") if self.is_tight(near) else (", ", ": ")
        return json.dumps(value, separators=separators, ensure_ascii=False)

    def is_tight(self, near: Member | None) -> bool:
        """Whether a member is written without a blank before its value."""
        return near is not None and self.text[near.value.start - 1] == ":"


def _replaced(style: _Style, member: Member, value: Any) -> str:
    text, old = style.text, member.value
    whole = text[old.start : old.end]
    indent = style.line_indent(member.start)
    # what was in one line stays in one line
    flat = (old.kind != "scalar" and "\n" not in whole) or not style.broken
    new_text = style.one_line(value, member) if flat else style.lines(value, indent)
    return text[: old.start] + new_text + text[old.end :]


def _inserted(style: _Style, document: Document, node: Node, name: str, value: Any) -> str:
    """Insert a member at the end of an object, behind the comments there."""
    text, closing = style.text, node.end - 1
    last = node.members[-1] if node.members else None
    if last is None:
        behind, comma, after = node.start + 1, "", ""
    else:
        behind = last.comma_end or last.value.end
        comma, after = ("", ",") if last.comma_end else (",", "")
    at = max([behind, *(end for start, end in document.comments if behind <= start < closing)])
    before, comments, remainder = text[:behind] + comma, text[behind:at], text[at:closing]
    if "\n" in text[node.start : node.end] or (last is None and style.broken):
        own = style.indent_before(last.start) if last else None
        outer = style.line_indent(node.start)
        indent = own if own is not None else outer + style.unit
        member = f"{json.dumps(name, ensure_ascii=False)}: {style.lines(value, indent)}{after}"
        end = remainder if "\n" in remainder else style.newline + outer
        return before + comments + style.newline + indent + member + end + text[closing:]
    member = style.one_line({name: value}, last)[1:-1]
    blank = " " if comments or (last is not None and not style.is_tight(last)) else ""
    return before + comments + blank + member + after + remainder + text[closing:]


def _removed(text: str, document: Document, node: Node, member: Member) -> str:
    place = node.members.index(member)
    is_last = place == len(node.members) - 1
    start, end = member.start, member.comma_end or member.value.end
    if member.comma_end and text[member.value.end : member.comma_end - 1].strip():
        end = member.value.end  # a comment before the comma stays
        text = text[: member.comma_end - 1] + text[member.comma_end :]
    elif len(node.members) == 1 and not (text[node.start + 1 : start] + text[end : node.end - 1]).strip():
        return text[: node.start + 1] + text[node.end - 1 :]
    ends = {stop for _, stop in document.comments}
    start, end = _line_of(text, start, end, ends if is_last else None)
    text = text[:start] + text[end:]
    if is_last and place and member.comma_end is None:
        comma = node.members[place - 1].comma_end
        text = text[: comma - 1] + text[comma:] if comma else text
    return text


def _line_of(text: str, start: int, end: int, ends: set[int] | None) -> tuple[int, int]:
    """Widen a range to whole lines where it stands alone in them, else by the blanks beside it.

    `ends` are those of comments if the blanks before it may go, which a line feed after a comment may not.
    """
    line = text.rfind("\n", 0, start) + 1
    behind = end
    while text[behind : behind + 1] in {" ", "\t", "\r"}:
        behind += 1
    if text.startswith("\n", behind) and not text[line:start].strip(" \t"):
        return line, behind + 1
    if ends is None or text.startswith("/", behind):
        return start, behind
    bare = len(text[:start].rstrip(" \t\r\n"))
    if bare in ends and "\n" in text[bare:start]:
        bare = text.index("\n", bare) + 1
    return bare, end


def _outside(text: str, document: Document, first: int, last: int) -> list[str]:
    """The comments of a document that are not in this range."""
    return [text[start:end] for start, end in document.comments if not first <= start < last]


def _checked(changed: str, expected: Any, comments: list[str], dialect: Dialect) -> str | Problem:
    """The changed text, if it says what it should and has all these comments."""
    after = parse(changed, dialect)
    if isinstance(after, SyntaxProblem) or not _same(after.root.value, expected):
        return _BY_HAND
    return changed if [changed[start:end] for start, end in after.comments] == comments else _BY_HAND


def _same(value: Any, other_value: Any) -> bool:
    """Whether two values are equal, also in the order of members and in their types."""
    return json.dumps(value) == json.dumps(other_value)


def _deepest(root: Node, path: Sequence[str]) -> tuple[Node, int] | FormProblem:
    """The last object on a path that exists, and the place in the path of the name to look up in it."""
    node = root
    for depth, name in enumerate(path):
        if node.kind != "object":
            return _no_object(path[:depth])
        member = node.member(name)
        if member is None or depth == len(path) - 1:
            return node, depth
        node = member.value
    return _BY_HAND


def _no_object(path: Sequence[str]) -> FormProblem:
    what = json.dumps(path[-1]) if path else "the top level"
    return FormProblem("not_an_object", f"{what} is not an object")


def _nested(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _with(value: Mapping[str, Any], path: Sequence[str], new: Any) -> dict[str, Any]:
    name, *below = path
    return {**value, name: _with(value.get(name, {}), below, new) if below else new}


def _without(value: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    name, *below = path
    if below:
        return {**value, name: _without(value[name], below)}
    return {key: item for key, item in value.items() if key != name}
