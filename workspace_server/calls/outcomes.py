"""Turns the outcome of a tool into the answer for its caller, and completes it for models that see a part.

A result that this server wrote must fit the tool's output schema. A result of another server is passed on
unchanged; a mismatch is only reported. What a model sees of a result depends on its client
(`headers.MODEL_SEES`): what it would miss is added to the part that it sees, and what it would see twice is
shortened.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import MISSING_CAPABILITY, Rejection
from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.text import redaction
from workspace_server import log
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.results import encode_result, error_result, refusal_result
from workspace_server.tool import CallOutcome, RpcError, ToolError, ToolResult

MAX_LEAVES: Final = 5_000
"""Strings, numbers and truth values that are looked for, some 30 ms; with more the answer is no."""
MAX_SEARCHED: Final = 16 * 1024 * 1024
"""Characters that searches for strings may pass over, some 30 ms as well; then the answer is no."""
_MAX_PARTS_OF_WORDS: Final = 64
"""Occurrences of a string inside other words after which it counts as not said."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TRUTH: Final = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)


class SaidTexts:
    """The texts that a model sees.

    Args:
        texts: the texts, in order.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._searched = 0

    def say(self, value: Any) -> bool:
        """Whether the texts say every string, number and truth value in `value`."""
        return all(number < MAX_LEAVES and self._says(leaf) for number, leaf in enumerate(_leaves(value)))

    def _says(self, leaf: Any) -> bool:
        if isinstance(leaf, bool):
            return ("true" if leaf else "false") in self._truths
        if isinstance(leaf, int | float):
            return _size(leaf) in self._numbers
        text = str(leaf).strip()
        return not text or text in self._strings or self._contain_word(text)

    @cached_property
    def _whole(self) -> str:
        return "\n".join(self._texts)

    @cached_property
    def _strings(self) -> frozenset[str]:
        """The texts, and the strings in those that are JSON."""
        texts = {text.strip() for text in self._texts}
        for text in self._texts:
            try:
                decoded = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                continue
            texts.update(leaf.strip() for leaf in _leaves(decoded) if isinstance(leaf, str))
        return frozenset(texts)

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(float(number) for number in _NUMBER.findall(self._whole))

    @cached_property
    def _truths(self) -> frozenset[str]:
        return frozenset(word.lower() for word in _TRUTH.findall(self._whole))

    def _contain_word(self, word: str) -> bool:
        """Whether the word stands in the texts, not only as a part of longer words."""
        whole, start = self._whole, 0
        for _ in range(_MAX_PARTS_OF_WORDS):
            if self._searched > MAX_SEARCHED:
                return False
            at = whole.find(word, start)
            self._searched += (len(whole) if at < 0 else at) - start
            if at < 0:
                return False
            if not (_continues(whole, at) or _continues(whole, at + len(word))):
                return True
            start = at + 1
        return False


def _leaves(value: Any) -> Iterator[str | int | float | bool]:
    """The strings, numbers and truth values in a value that was decoded from JSON."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif item is not None:
            yield item


def _size(number: float) -> float:
    """The number without its sign: in a text, `2-3` may be a range."""
    try:
        return abs(float(number))
    except OverflowError:
        return math.inf


def _continues(text: str, at: int) -> bool:
    """Whether the characters before and at this position belong to one word."""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


MAX_BYTES: Final = 4 * 1024 * 1024
"""Larger results are not examined: they would block other calls for too long."""
_MAX_DESCRIPTION: Final = 300
"""Characters of a link's description that a text repeats: enough to decide whether to read what it names."""
_MAX_LINKS: Final = 200
"""Links that a text names; of more it says how many."""
_MAX_COMPARED: Final = 256 * 1024
"""Characters of the texts in which links are looked for; what clients show of a text is shorter."""
_STRUCTURED: Final = "structuredContent"
_CONTENT: Final = "content"
_LINK: Final = "resource_link"
_MARKS: Final = (f'"{_STRUCTURED}"'.encode(), f'"{_LINK}"'.encode())
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
    resource: msgspec.Raw = _NULL


class _Link(msgspec.Struct, gc=False):
    """The members of a resource link that a text repeats."""

    type: str = ""
    uri: Any = None
    name: Any = None
    description: Any = None


_blocks: Final = msgspec.json.Decoder(list[_Block])
_links: Final = msgspec.json.Decoder(list[_Link])


def for_model(answer: Outcome, offered: OfferedTool, model_sees: str) -> Outcome:
    """The answer, completed where a model would miss a part of it.

    A model that sees only text gets the structured content as text where the other texts do not say it. A
    model that sees only structured content gets everything as text if the structured content lacks some of
    it: then the structured content is left out, which a tool with an `outputSchema` may do only in errors. A
    model that sees both gets results of our own tools without the structured content, which their text
    repeats; of language tools, so does one that sees structured content. Resource links that the client
    drops are named in a text.

    Args:
        answer: the answer to a call.
        offered: the tool.
        model_sees: the value of `headers.MODEL_SEES`; empty if nothing is to be changed.
    """
    words = model_sees.split()
    if not words or not isinstance(answer, Mapping | msgspec.Raw):
        return answer
    if isinstance(answer, Mapping):
        if offered.source.kind == "language-server" and "structured" in words and not answer.get("isError"):
            model_sees = "both"  # it is told all by the text, in a third of the tokens
        return without_repetition(answer, model_sees) if offered.repeats_itself else answer
    body = jsonrpc.bytes_of(answer)
    if len(body) > MAX_BYTES or not any(mark in body for mark in _MARKS):
        return answer
    members = jsonrpc.members_of(answer)
    try:
        completed = _completed(members, offered.definition, words)
        if headers.NO_LINKS in words:
            completed = _with_links(completed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return answer
    return answer if completed is members else jsonrpc.raw(completed)


def without_repetition(answer: Mapping[str, Any], model_sees: str) -> Mapping[str, Any]:
    """The answer of a tool that says all in its text, for a model that sees both parts: the text alone."""
    if "both" not in model_sees.split() or _STRUCTURED not in answer:
        return answer
    return {name: value for name, value in answer.items() if name != _STRUCTURED}


def _completed(members: _Members, definition: Mapping[str, Any], words: list[str]) -> _Members:
    """The members of the result, or `members` itself if no structured content or text is missing."""
    if members.get(_STRUCTURED, _NULL) == _NULL:
        return members
    if "text" in words:
        return _for_texts(members, definition)
    return _for_structured(members, definition) if "structured" in words else members


def _for_texts(members: _Members, definition: Mapping[str, Any]) -> _Members:
    """The members for a model that sees only texts, embedded ones among them."""
    blocks = _blocks.decode(members.get(_CONTENT, _NO_BLOCKS))
    if not any(map(_says_something, blocks)):
        return _with_text(members, jsonrpc.bytes_of(members[_STRUCTURED]).decode())
    if _is_for_an_app(definition):
        return members
    structured = msgspec.json.decode(members[_STRUCTURED])
    if _is_repeated(structured, blocks) or SaidTexts([*map(_text_in, blocks)]).say(structured):
        return members
    return _with_text(members, jsonrpc.bytes_of(members[_STRUCTURED]).decode())


def _is_for_an_app(definition: Mapping[str, Any]) -> bool:
    """Whether the tool has a page that shows its structured content; the text is what its model gets."""
    meta = definition.get("_meta")
    return isinstance(meta, Mapping) and ("ui" in meta or "ui/resourceUri" in meta)


def _for_structured(members: _Members, definition: Mapping[str, Any]) -> _Members:
    """The members for a model that sees structured content instead of texts, where there is any."""
    blocks = _blocks.decode(members.get(_CONTENT, _NO_BLOCKS))
    is_error = members.get("isError") == _TRUE
    text = jsonrpc.bytes_of(members[_STRUCTURED]).decode()
    # some models that see only structured content see only the text of errors
    if is_error and not any(map(_says_something, blocks)):
        return _with_text(members, text)
    if "outputSchema" in definition and not is_error:
        return members
    structured = msgspec.json.decode(members[_STRUCTURED])
    if all(map(_Parts(structured).cover, blocks)):
        return members
    complete = members if _is_repeated(structured, blocks) else _with_text(members, text)
    return {name: raw for name, raw in complete.items() if name != _STRUCTURED}


def _says_something(block: _Block) -> bool:
    """Whether a model that sees only text learns something from the block."""
    return block.type == "resource" or (block.type == "text" and block.text != _EMPTY)


def _text_in(block: _Block) -> str:
    """The text of a block, or of the resource in it; empty for others."""
    text = block.text if block.type == "text" else jsonrpc.members_of(block.resource).get("text", _EMPTY)
    return jsonrpc.text_of(text) or ""


def _with_text(members: _Members, text: str) -> _Members:
    """The members, with one more text at the end of the content."""
    blocks = msgspec.json.decode(members.get(_CONTENT, _NO_BLOCKS), type=list[msgspec.Raw])
    return {**members, _CONTENT: jsonrpc.raw([*blocks, {"type": "text", "text": text}])}


def _with_links(members: _Members) -> _Members:
    """The members, with a text that names the resource links which no text names; or `members` itself."""
    content = members.get(_CONTENT, _NO_BLOCKS)
    texts = "\n".join(map(_text_in, _blocks.decode(content)))[:_MAX_COMPARED]
    links = [link for link in _links.decode(content) if link.type == _LINK]
    lines = [_link_name(link) for link in links[:_MAX_LINKS] if str(link.uri) not in texts]
    if len(links) > _MAX_LINKS:
        lines.append(f"and {len(links) - _MAX_LINKS} more resource links")
    return _with_text(members, "\n".join(lines)) if lines else members


def _link_name(link: _Link) -> str:
    """The line that names a link."""
    about = f" ({str(link.description)[:_MAX_DESCRIPTION]})" if link.description else ""
    return f"Resource link: {link.name or link.uri} at {link.uri}{about}"


def _is_repeated(structured: Any, blocks: Sequence[_Block]) -> bool:
    """Whether one of the texts is the structured content as JSON, or its only member."""
    only = structured.values() if isinstance(structured, dict) and len(structured) == 1 else ()
    wholes = {_canonical(structured), *map(_canonical, only)}
    texts = (jsonrpc.text_of(block.text) for block in blocks if block.type == "text")
    return any(text is not None and _json_in(text) in wholes for text in texts)


class _Parts:
    """The values that structured content consists of: all strings, and other values near the top.

    Args:
        value: the structured content, decoded.
    """

    def __init__(self, value: Any) -> None:
        self._values: set[bytes] = set()
        self._texts: set[str] = set()
        self._collect(value)

    def _collect(self, value: Any) -> None:
        waiting = [(value, 0)]
        while waiting:
            part, depth = waiting.pop()
            if isinstance(part, str):
                self._texts.add(part.strip())
                continue
            if depth <= _COMPARED_DEPTH:
                self._values.add(_canonical(part))
            children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            waiting.extend((child, depth + 1) for child in children)

    def cover(self, block: _Block) -> bool:
        """Whether the structured content says all that the block says."""
        if block.type != "text":
            return False
        text = (jsonrpc.text_of(block.text) or "").strip()
        return not text or text in self._texts or _json_in(text) in self._values


def _json_in(text: str) -> bytes | None:
    """The canonical form of a text that is JSON; None for other texts."""
    try:
        return _canonical(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return None


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


ReportIssue = Callable[[Issue], None]


def answer(identity: bytes, offered: OfferedTool, outcome: CallOutcome, report: ReportIssue) -> Outcome:
    """The answer to a call.

    Args:
        identity: the call's id as JSON text.
        offered: the tool.
        outcome: the tool's outcome.
        report: takes an issue about another server's result that does not fit its schema.
    """
    match outcome:
        case ToolResult():
            if outcome.is_error or not _violates_schema(offered, outcome.structured, required=True):
                return encode_result(outcome)
            log.error("output_schema_mismatch", tool=offered.name, source=offered.source.id)
            failed = ToolError(f"the result of {offered.name} does not fit its output schema")
            return encode_result(error_result(offered.named_tool(), failed))
        case RpcError():
            return rejection(outcome, identity)
        case Refusal():
            return encode_result(refusal_result(offered.named_tool(), outcome))
        case _:
            _report_mismatch(offered, outcome, report)
            return outcome


_SMALL_BYTES: Final = 4096
"""Results of other servers up to this size are read for `isError`; errors are rarely larger."""


def outcome_word(outcome: CallOutcome) -> str:
    """`ok`, `error`, or the reason of a refusal."""
    match outcome:
        case Refusal():
            return outcome.reason.word
        case RpcError():
            return "error"
        case ToolResult():
            return "error" if outcome.is_error else "ok"
        case msgspec.Raw():
            small = len(memoryview(outcome)) <= _SMALL_BYTES
            flag = jsonrpc.members_of(outcome).get("isError") if small else None
            return "error" if flag is not None and jsonrpc.bytes_of(flag) == b"true" else "ok"


def with_note(answer: Outcome, note: str) -> Outcome:
    """The answer with one more text for the model; what has no list of content stays as it is."""
    if not note or isinstance(answer, Rejection):
        return answer
    block = {"type": "text", "text": note}
    if not isinstance(
        answer, msgspec.Raw
    ):  # stays one: the members that every result of ours has are added later
        ours = answer.get("content")
        return {**answer, "content": [*ours, block]} if isinstance(ours, list) else answer
    members = jsonrpc.members_of(answer)
    content = members.get("content")
    if content is None or jsonrpc.bytes_of(content)[:1] != b"[":
        return answer
    blocks = msgspec.json.decode(content, type=list[msgspec.Raw])
    return jsonrpc.raw({**members, "content": [*blocks, block]})


def rejection(error: RpcError, identity: bytes) -> Rejection:
    """A source's error, unchanged. A missing capability is HTTP status 400 (MCP 2026-07-28)."""
    status = 400 if error.code == MISSING_CAPABILITY else 200
    return Rejection(status, error.code, error.message, identity, error.data)


def _report_mismatch(offered: OfferedTool, result: msgspec.Raw, report: ReportIssue) -> None:
    if "outputSchema" not in offered.definition:
        return
    members = jsonrpc.members_of(result)
    if jsonrpc.bytes_of(members.get("isError", msgspec.Raw(b"false"))) == b"true":
        return
    structured = members.get("structuredContent")
    value = None if structured is None else msgspec.json.decode(structured)
    if structured is not None and _violates_schema(offered, value, required=False):
        text = f"A result of {offered.name} did not fit its output schema"
        details = f"source {offered.source.id}"
        issue = Issue("warning", "schema", "OUTPUT_SCHEMA_MISMATCH", text, offered.name, details)
        report(issue)


def _violates_schema(offered: OfferedTool, structured: Any, *, required: bool) -> bool:
    """Whether structured content does not fit the tool's output schema.

    Args:
        required: the answer if there is no structured content, or the schema itself cannot be used.
    """
    try:
        schema = offered.results
    except ValueError:
        return required
    if schema is None:
        return False
    return required if structured is None else bool(schema.check(structured))


def trace(call: Call, offered: OfferedTool, outcome: CallOutcome, seconds: float) -> None:
    """Log a call if the `debug` setting is on; its level decides whether the output is logged too."""
    level = call.view.configuration.debug
    if level == "off":
        return
    fields: dict[str, Any] = {"tool": offered.name, "ms": round(seconds * 1000, 1)}
    fields["input"] = redaction.redacted(msgspec.json.decode(call.arguments))
    if level == "detail":
        fields["output"] = redaction.redacted(_loggable(outcome))
    log.info("tool_call", **fields)


def _loggable(outcome: CallOutcome) -> Any:
    match outcome:
        case msgspec.Raw():
            return msgspec.json.decode(outcome)
        case ToolResult():
            return encode_result(outcome)
        case RpcError():
            return {"code": outcome.code, "message": outcome.message}
        case _:
            return outcome.data()
