"""Repairs results of servers that violate their type: clients refuse such a result whole. Pure.

A result that fits stays byte for byte; it costs a look at its members. Of another one only the members that
do not fit are written anew, and nothing that a model could read is lost: what is no content becomes text.
Content of unknown types stays, because newer clients may know it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server.sources.mcp.member_rules import (
    ANNOTATIONS,
    ANYTHING,
    GONE,
    ICONS,
    ListRule,
    ObjectRule,
    Rule,
    fitting,
    is_flag,
    is_text,
    is_whole,
)

_Meta = dict[str, Raw] | UnsetType


class _Shape(msgspec.Struct, gc=False, rename="camel"):
    """What clients accept at once. A member typed as absent has more rules: with it, all is looked at."""


class _Annotations(_Shape):
    audience: list[Literal["user", "assistant"]] | UnsetType = UNSET
    priority: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    last_modified: UnsetType = UNSET


class _Block(_Shape, tag_field="type", kw_only=True):
    annotations: _Annotations | UnsetType = UNSET
    meta: _Meta = msgspec.field(default=UNSET, name="_meta")


class _Text(_Block, tag="text", kw_only=True):
    text: str


class _Image(_Block, tag="image", kw_only=True):
    data: str
    mime_type: str


class _Audio(_Block, tag="audio", kw_only=True):
    data: str
    mime_type: str


class _Contents(_Shape, kw_only=True):
    uri: str
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    meta: _Meta = msgspec.field(default=UNSET, name="_meta")

    def __post_init__(self) -> None:
        if self.text is UNSET and self.blob is UNSET:
            raise ValueError("neither text nor blob")


class _Embedded(_Block, tag="resource", kw_only=True):
    resource: _Contents


class _Link(_Block, tag="resource_link", kw_only=True):
    uri: str
    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    icons: UnsetType = UNSET


_Content = _Text | _Image | _Audio | _Embedded | _Link


class _Result(_Shape, kw_only=True):
    meta: _Meta = msgspec.field(default=UNSET, name="_meta")


class _CallResult(_Result, kw_only=True):
    content: list[_Content]
    is_error: bool | UnsetType = UNSET


class _Message(_Shape, kw_only=True):
    role: Literal["user", "assistant"]
    content: _Content


class _PromptResult(_Result, kw_only=True):
    messages: list[_Message]
    description: str | UnsetType = UNSET


class _ReadResult(_Result, kw_only=True):
    contents: list[_Contents]


class _Completion(_Shape, kw_only=True):
    values: list[str]
    total: int | UnsetType = UNSET
    has_more: bool | UnsetType = UNSET


class _CompletionResult(_Result, kw_only=True):
    completion: _Completion


class _Tools(_Result, kw_only=True):
    tools: list[Raw]


class _Prompts(_Result, kw_only=True):
    prompts: list[Raw]


class _Resources(_Result, kw_only=True):
    resources: list[Raw]


class _Templates(_Result, kw_only=True):
    resource_templates: list[Raw]


_FITTING: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    method: msgspec.json.Decoder(kind)
    for method, kind in {
        names.TOOLS_CALL: _CallResult,
        names.PROMPTS_GET: _PromptResult,
        names.RESOURCES_READ: _ReadResult,
        names.COMPLETE: _CompletionResult,
        names.TOOLS_LIST: _Tools,
        names.PROMPTS_LIST: _Prompts,
        names.RESOURCES_LIST: _Resources,
        names.TEMPLATES_LIST: _Templates,
    }.items()
}
_EMBEDDED: Final[Mapping[str, Rule]] = {
    "uri": is_text, "text": is_text, "blob": is_text, "mimeType": is_text, "_meta": ANYTHING,
}  # fmt: skip
_BLOCK: Final[Mapping[str, Rule]] = {"annotations": ANNOTATIONS, "_meta": ANYTHING}
_BINARY: Final = ObjectRule({**_BLOCK, "data": is_text, "mimeType": is_text}, ("data", "mimeType"))
_BLOCKS: Final[Mapping[str, ObjectRule]] = {
    "text": ObjectRule({**_BLOCK, "text": is_text}, ("text",)),
    "image": _BINARY,
    "audio": _BINARY,
    "resource": ObjectRule({**_BLOCK, "resource": ObjectRule(_EMBEDDED, ("uri",))}, ("resource",)),
    "resource_link": ObjectRule(
        {**_BLOCK, "uri": is_text, "name": is_text, "title": is_text, "description": is_text,
         "mimeType": is_text, "size": is_whole, "icons": ICONS},
        ("uri", "name"),
    ),
}  # fmt: skip
_COMPLETION: Final = ObjectRule({"values": ListRule(is_text), "total": is_whole, "hasMore": is_flag})
_NO: Final = frozenset({"", "false", "no", "0"})
"""Texts by which a server means that a call did not fail."""

Members = Mapping[str, Raw]
Changes = dict[str, Any]
"""Members by name as they have to be; `GONE` for one that has to go."""


def may_violate_type(method: str, result: bytes) -> bool:
    """Whether clients may refuse this result of a method, a JSON object, for its type."""
    decoder = _FITTING.get(method)
    if decoder is None:
        return False
    try:
        decoder.decode(result)
    except msgspec.ValidationError:
        return True
    except (msgspec.DecodeError, RecursionError):
        return False  # half a character, a number of any size: what clients make of it, nobody knows
    return False


def repaired_members(method: str, members: Members, uri: str) -> Changes:
    """The members of a result that have to change so that it fits its type.

    Args:
        method: one whose result may violate its type.
        members: of the result.
        uri: what a `resources/read` asked for.
    """
    values = {name: _decoded(raw) for name, raw in members.items()}
    changes = {
        name: value
        for name, value in _REPAIRS[method](values, uri).items()
        if name not in values or value is GONE or jsonrpc.dumps(value) != jsonrpc.dumps(values[name])
    }
    if "_meta" in members and jsonrpc.bytes_of(members["_meta"])[:1] != b"{":
        changes["_meta"] = GONE
    return changes


def _call(values: Mapping[str, Any], _uri: str) -> Changes:
    # structured content is not repeated as text: only some clients need that (`result_channels.for_model`)
    changes: Changes = {"content": _blocks(values.get("content"))}
    if not is_flag(failed := values.get("isError", False)):
        is_failure = bool(failed) and str(failed).strip().lower() not in _NO
        changes["isError"] = True if is_failure else GONE
    return changes


def _prompt(values: Mapping[str, Any], _uri: str) -> Changes:
    changes: Changes = {
        "messages": [part for entry in _listed(values.get("messages")) for part in _messages(entry)]
    }
    if not is_text(values.get("description", "")):
        changes["description"] = GONE
    return changes


def _messages(entry: Any) -> list[dict[str, Any]]:
    """The messages that one entry means: one for each of its blocks, where it has a list of them."""
    message = entry if isinstance(entry, dict) and "content" in entry else {"content": entry}
    role = "assistant" if message.get("role") == "assistant" else "user"
    return [{**message, "role": role, "content": block} for block in _blocks(message["content"])]


def _read(values: Mapping[str, Any], uri: str) -> Changes:
    return {"contents": [_contents(entry, uri) for entry in _listed(values.get("contents"))]}


def _contents(entry: Any, uri: str) -> dict[str, Any]:
    """The contents of a resource; what is none is its text."""
    if not isinstance(entry, dict):
        return {"uri": uri, "text": _as_text(entry)}
    entry_with_uri = entry if is_text(entry.get("uri")) else {**entry, "uri": uri}
    members: dict[str, Any] = fitting(_with_text(entry_with_uri), ObjectRule(_EMBEDDED), "", [])
    return members if "text" in members or "blob" in members else {**members, "text": ""}


def _complete(values: Mapping[str, Any], _uri: str) -> Changes:
    completion = fitting(values.get("completion"), _COMPLETION, "", [])
    return {"completion": {"values": [], **({} if completion is GONE else completion)}}


def _list_of(member: str) -> Callable[[Mapping[str, Any], str], Changes]:
    """The repair of a list; only null is known to mean an empty one."""
    return lambda values, _uri: {member: []} if values.get(member, GONE) is None else {}


_REPAIRS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Changes]]] = {
    names.TOOLS_CALL: _call,
    names.PROMPTS_GET: _prompt,
    names.RESOURCES_READ: _read,
    names.COMPLETE: _complete,
    names.TOOLS_LIST: _list_of("tools"),
    names.PROMPTS_LIST: _list_of("prompts"),
    names.RESOURCES_LIST: _list_of("resources"),
    names.TEMPLATES_LIST: _list_of("resourceTemplates"),
}


def _blocks(value: Any) -> list[Any]:
    return [block for entry in _listed(value) if (block := _block(entry)) is not None]


def _block(value: Any) -> Any:
    """A content block; None for null, which is no content."""
    if value is None:
        return None
    if not isinstance(value, dict):
        return _text(_as_text(value))
    block = {"type": "text", **value} if is_text(value.get("text")) else value
    rule = _BLOCKS.get(block.get("type", "")) if is_text(block.get("type")) else None
    if rule is None:
        return value if is_text(value.get("type")) else _text(_as_text(value))
    if block["type"] == "resource_link" and not is_text(block.get("name")):
        block = {**block, "name": block.get("uri")}
    if block["type"] == "text":
        block = _with_text(block)
    inner = block.get("resource")
    if block["type"] == "resource" and isinstance(inner, dict) and is_text(inner.get("uri")):
        block = {**block, "resource": _contents(inner, inner["uri"])}
    members = fitting(block, rule, "", [])
    return _text(_as_text(value)) if members is GONE else members


def _with_text(holder: dict[str, Any]) -> dict[str, Any]:
    """The object with a text that is one, if it has any; some servers write JSON instead of its text."""
    text = holder.get("text")
    return holder if text is None or is_text(text) else {**holder, "text": _as_text(text)}


def _listed(value: Any) -> list[Any]:
    """What should be a list: one entry that came alone is a list of one; null and `{}` are empty."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == {} else [value]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else jsonrpc.dumps(value).decode()


def _decoded(raw: Raw) -> Any:
    """The value of a member; its JSON as text if it cannot be held."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return jsonrpc.bytes_of(raw).decode()
