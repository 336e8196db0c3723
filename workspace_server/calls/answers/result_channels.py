"""Completes results of other servers for models that see only their text, or only their structured content.

Pure. A result that already says everything to such a model stays byte for byte as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protocol import jsonrpc
from workspace_server.calls.request import Outcome

MAX_BYTES: Final = 4 * 1024 * 1024
"""Larger results are not examined: they would block other calls for too long."""
_MARK: Final = b'"structuredContent"'
_STRUCTURED: Final = "structuredContent"
_CONTENT: Final = "content"
_EMPTY: Final = msgspec.Raw(b'""')
_NO_BLOCKS: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")
_TRUE: Final = msgspec.Raw(b"true")
_COMPARED_DEPTH: Final = 2
"""Servers often repeat the whole, one member, or each element of a list as text."""

_Members = dict[str, msgspec.Raw]


class _Block(msgspec.Struct, gc=False):
    """The members of a content block that tell whether a model learns something from it."""

    type: str = ""
    text: msgspec.Raw = _EMPTY


_blocks: Final = msgspec.json.Decoder(list[_Block])


def for_model(answer: Outcome, definition: Mapping[str, Any], model_sees: str) -> Outcome:
    """The answer, completed where a model would miss a part of it.

    A model that sees only text gets the structured content as text if there is no other text. A model that
    sees only structured content gets everything as text if the structured content lacks some of it: then the
    structured content is left out, which a tool with an `outputSchema` may do only in errors.

    Args:
        answer: the answer to a call. Only results of other servers, which are bytes, are changed.
        definition: the definition of the tool.
        model_sees: `text` or `structured`; with any other value nothing is changed.
    """
    if model_sees not in {"text", "structured"} or not isinstance(answer, msgspec.Raw):
        return answer
    body = jsonrpc.bytes_of(answer)
    if len(body) > MAX_BYTES or _MARK not in body:
        return answer
    members = jsonrpc.members_of(answer)
    if members.get(_STRUCTURED, _NULL) == _NULL:
        return answer
    try:
        completed = _completed(members, definition, sees_text=model_sees == "text")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return answer
    return answer if completed is members else jsonrpc.raw(completed)


def _completed(members: _Members, definition: Mapping[str, Any], *, sees_text: bool) -> _Members:
    """The members of the result, or `members` itself if nothing is missing."""
    blocks = _blocks.decode(members.get(_CONTENT, _NO_BLOCKS))
    is_error = members.get("isError") == _TRUE
    # some models that see only structured content see only the text of errors
    if (sees_text or is_error) and not any(map(_says_something, blocks)):
        return _with_text(members)
    if sees_text or ("outputSchema" in definition and not is_error):
        return members
    parts = _Parts(msgspec.json.decode(members[_STRUCTURED]))
    if all(map(parts.cover, blocks)):
        return members
    complete = members if any(map(parts.are_in, blocks)) else _with_text(members)
    return {name: raw for name, raw in complete.items() if name != _STRUCTURED}


def _says_something(block: _Block) -> bool:
    """Whether a model that sees only text learns something from the block."""
    return block.type == "resource" or (block.type == "text" and block.text != _EMPTY)


def _with_text(members: _Members) -> _Members:
    """The members, with the structured content as the last text."""
    text = jsonrpc.bytes_of(members[_STRUCTURED]).decode()
    given = msgspec.json.decode(members.get(_CONTENT, _NO_BLOCKS), type=list[msgspec.Raw])
    return {**members, _CONTENT: jsonrpc.raw([*given, {"type": "text", "text": text}])}


class _Parts:
    """The values that structured content consists of: all strings, and other values near the top.

    Args:
        value: the structured content, decoded.
    """

    def __init__(self, value: Any) -> None:
        self._whole = _canonical(value)
        self._values = {self._whole}
        self._texts: set[str] = set()
        self._collect(value)

    def _collect(self, value: Any) -> None:
        waiting = [(value, 0)]
        while waiting:
            one, depth = waiting.pop()
            if isinstance(one, str):
                self._texts.add(one.strip())
                continue
            if depth <= _COMPARED_DEPTH:
                self._values.add(_canonical(one))
            children = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
            waiting.extend((child, depth + 1) for child in children)

    def cover(self, block: _Block) -> bool:
        """Whether the structured content says all that the block says."""
        if block.type != "text":
            return False
        text = (jsonrpc.text_of(block.text) or "").strip()
        return not text or text in self._texts or _json_in(text) in self._values

    def are_in(self, block: _Block) -> bool:
        """Whether the block says all that the structured content says."""
        text = jsonrpc.text_of(block.text) if block.type == "text" else None
        return text is not None and _json_in(text) == self._whole


def _json_in(text: str) -> bytes | None:
    """The canonical form of a text that is JSON; None for other texts."""
    try:
        return _canonical(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return None


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
