"""One `tools/call` on its way to a source: its request, view, name and checked arguments, and its way.

All ways pass the same steps: view, gates, arguments, source, outcome. `Way` says why each exists, and `RULES`
how they differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import headers, jsonrpc, names, trace_context
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH, Rejection
from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from lm_tools_bridge.protocol.param_headers import Mirrored, value_at
from workspace_server.call_context import NO_ARGUMENTS, CallContext, never_suspended, refuse_request
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View
from workspace_server.results import encode_result
from workspace_server.tool import Tool
from workspace_server.tool_search.definitions import search_name


class Way(Enum):
    """How a call came in, and how it is run."""

    REPEATED = "repeated"
    IMMEDIATE = "immediate"
    AWAITED = "awaited"
    WRAPPED = "wrapped"
    PASS_THROUGH = "pass-through"  # noqa: S105  no password
    NESTED = "nested"
    INTERNAL = "internal"


class Continuation(Enum):
    """What a call can become that outlives its request."""

    SUSPENDED = "suspended"
    """The source asked the client something. The call waits for the client's next request."""
    TASK = "task"
    """The client polls for the result (SEP-2663)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for the calls of one way.

    Attributes:
        why: the reason the way exists.
        needs_task: whether the call runs in an asyncio task, because it may have to wait.
        checks_headers: whether HTTP headers must agree with the arguments (`Mcp-Param-…`).
        checks_arguments: whether arguments are validated against the tool's input schema here.
        may_become: what the call can become when its request ends before it does.
        may_be_app: whether an app of a server may have made the call.
    """

    why: str
    needs_task: bool = True
    checks_headers: bool = False
    checks_arguments: bool = True
    may_become: frozenset[Continuation] = frozenset()
    may_be_app: bool = False


_BOTH: Final = frozenset(Continuation)

RULES: Final[Mapping[Way, Rules]] = {
    Way.REPEATED: Rules(
        "A client's calls of a tool that only computes differ in id and arguments: compared, not parsed.",
        needs_task=False,
    ),
    Way.IMMEDIATE: Rules(
        "A tool that only computes never waits, so its call is answered in the connection's callback.",
        needs_task=False,
        checks_headers=True,
    ),
    Way.AWAITED: Rules(
        "Any other call of a client: gates and sources may wait for a person, a process or a server.",
        checks_headers=True,
        may_become=_BOTH,
        may_be_app=True,
    ),
    Way.WRAPPED: Rules(
        "Clients reach unlisted tools through `execute_tool`; headers then describe the outer call.",
        may_become=_BOTH,
    ),
    Way.PASS_THROUGH: Rules(
        "A workspace of one server shows that server as it is: the server checks its own arguments.",
        checks_headers=True,
        checks_arguments=False,
        may_become=_BOTH,
        may_be_app=True,
    ),
    Way.NESTED: Rules(
        "A script calls tools with its caller's rights; their questions go to the script's own caller.",
    ),
    Way.INTERNAL: Rules(
        "A program of the user calls tools over the internal channel and waits as long as that takes.",
        may_become=frozenset({Continuation.SUSPENDED}),
    ),
}


_OWN_MEMBERS: Final = frozenset({"name", "arguments"})
_ANSWERS: Final = frozenset({"inputResponses", "requestState"})


class Call(msgspec.Struct, frozen=True):
    """A call of one tool.

    Attributes:
        request: the client's request; a nested call has that of the call around it.
        view: the tools that can be called.
        name: the tool's offered name.
        arguments: JSON text of an object.
        way: how the call came in.
        depth: how many tools called each other to make this call.
        parent: the context of the calling tool, for a nested call; its caller gets all notifications.
    """

    request: McpRequest
    view: View
    name: str
    arguments: msgspec.Raw
    way: Way = Way.AWAITED
    depth: int = 0
    parent: CallContext | None = None

    @property
    def rules(self) -> Rules:
        """What holds for calls of its way."""
        return RULES[self.way]

    @property
    def model_sees(self) -> str:
        """What of its result the client shows to its model; empty if the result is not for a model."""
        return "" if self.depth else self.request.model_sees

    @property
    def folder(self) -> str:
        """The folder of the project in which the agent works; empty for the root, where scripts run, too."""
        return "" if self.depth else headers.decode_value(self.request.header.get(headers.FOLDER, "")) or ""

    @property
    def note(self) -> str:
        """What the manager tells the model about the workspace of this call; empty for nothing."""
        return "" if self.depth else headers.decode_value(self.request.header.get(headers.NOTE, "")) or ""

    @property
    def search_name(self) -> str:
        """The name of `tool_search` for its client."""
        return search_name(ClientTraits.decode(self.request.header.get(headers.CLIENT_TRAITS, "")))

    def under(self, view: View) -> Call:
        """The call under another view. A model that makes it, in whatever way, reaches no tools of apps."""
        if self.way is not Way.INTERNAL:
            view = self.request.sees(view)
            view = view if RULES[self.way].may_be_app else view.for_models()
        return replace(self, view=view)

    def wrapped(self, name: str, arguments: msgspec.Raw) -> Call:
        """The call inside this call of `execute_tool`."""
        way = Way.WRAPPED if self.way is Way.AWAITED else self.way
        return replace(self, name=name, arguments=arguments, way=way).under(self.view)

    def nested(self, name: str, arguments: msgspec.Raw, context: CallContext) -> Call:
        """A call that this call's tool makes; `context` is what that tool runs with."""
        inner = replace(self, name=name, arguments=arguments, way=Way.NESTED).under(self.view)
        return replace(inner, depth=self.depth + 1, parent=context)

    def find_tool(self) -> OfferedTool | None:
        """The tool; None if it cannot be called.

        A source that forwards unlisted names gets a tool without a definition: only that source can check
        the arguments.
        """
        offered = self.view.get(self.name)
        if offered is not None:
            return offered
        offered_tool = self.view.forwarded(self.name)
        if offered_tool is None:
            return None
        source, own_name = offered_tool
        tool = Tool(own_name, {"name": self.name, "inputSchema": {"type": "object"}})
        return OfferedTool(self.name, tool, source, tool.definition)

    def time_limit_s(self, offered: OfferedTool) -> float:
        """How many seconds the call of this tool may take."""
        return offered.tool.timeout_s or self.view.configuration.call_timeout_s

    def limit_setting(self, offered: OfferedTool) -> str:
        """The setting that limits it, and its file; empty if the limit cannot be set."""
        if offered.tool.timeout_s:
            return offered.source.limit_setting_of(offered.tool.name)
        return self.view.configuration.call_timeout_setting

    def context(self) -> CallContext:
        """What the tool's source learns about the call. The toolbox is added later."""
        # a client's answers belong to the call it made, not to calls that a script makes
        withheld = _OWN_MEMBERS if self.depth == 0 else _OWN_MEMBERS | _ANSWERS
        meta = self.request.inbound.meta
        name = _decoded(meta.get(names.META_CLIENT)).get("name")
        return CallContext(
            notify=self.request.notify if self.parent is None else self.parent.notify,
            ask=refuse_request if self.parent is None else self.parent.ask,
            is_suspended=never_suspended if self.parent is None else self.parent.is_suspended,
            arguments=self.arguments,
            params={key: raw for key, raw in self.request.inbound.params.items() if key not in withheld},
            caller=self.request.header.get(headers.CALLER, ""),
            client=name if isinstance(name, str) else "",
            capabilities=_decoded(meta.get(names.META_CAPABILITIES)),
            folder=self.folder,
            trace=self.request.trace or self.request.header.get(trace_context.NAME, ""),
        )


def call_of(request: McpRequest, view: View, way: Way = Way.AWAITED) -> Call | Rejection:
    """The call that a client's `tools/call` makes, or the error for arguments that are no object."""
    view = request.sees(view)
    arguments = request.inbound.params.get("arguments", NO_ARGUMENTS)
    if jsonrpc.bytes_of(arguments)[:1] != b"{":
        return request.invalid("params.arguments must be an object")
    name: str | Rejection = request.inbound.name or ""
    if way is not Way.PASS_THROUGH:  # whose list has the server's own names
        name = meant_name(request, view, request.inbound.name or "")
    return name if isinstance(name, Rejection) else Call(request, view, name, arguments, way)


def meant_name(request: McpRequest, view: View, name: str) -> str | Rejection:
    """The offered name of the tool that a client means by this name, or the error if that is open."""
    names = view.names_for(request.name_rules)
    meant = [name] if names is None else names.meant(name)
    if names is None or len(meant) == 1:
        return meant[0]
    choices = " or ".join(map(names.shown_name, meant))
    message = f"{len(meant)} tools could be meant by the name {name}"
    return request.refuse(Refusal(Reason.TOOL_NOT_FOUND, message, f"use {choices}"))


def _decoded(raw: msgspec.Raw | None) -> Mapping[str, Any]:
    value = None if raw is None else msgspec.json.decode(raw)
    return value if isinstance(value, Mapping) else {}


class CheckedCall(msgspec.Struct, frozen=True):
    """A call that can run: its tool, and its arguments, decoded and with defaults filled in."""

    call: Call
    offered: OfferedTool
    arguments: Mapping[str, Any]


def check_arguments(call: Call, offered: OfferedTool) -> CheckedCall | Outcome:
    """The call, ready to run, or the answer that says what is wrong with its arguments.

    Which checks apply depends on the call's way.
    """
    arguments: Mapping[str, Any] = msgspec.json.decode(call.arguments)
    if call.rules.checks_headers and (mismatch := _header_mismatch(call, offered, arguments)) is not None:
        return mismatch
    if not call.rules.checks_arguments:
        return CheckedCall(call, offered, arguments)
    filled = offered.with_defaults(arguments)
    if filled is not arguments:
        call = replace(call, arguments=jsonrpc.raw(filled))
    if problems := offered.arguments.check(filled):
        from workspace_server.schemas import validation  # loaded with the first call

        return encode_result(validation.invalid_arguments_result(offered.named_tool(), problems))
    return CheckedCall(call, offered, filled)


def fit_arguments(offered: OfferedTool, text: bytes) -> Mapping[str, Any] | None:
    """Arguments, given as JSON text, decoded and with defaults filled in; None if they violate the schema."""
    arguments = offered.with_defaults(msgspec.json.decode(text))
    return None if offered.arguments.check(arguments) else arguments


def _header_mismatch(call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Rejection | None:
    """The error for a call whose mirrored headers disagree with its arguments."""
    if not offered.mirrored or headers.UNMIRRORED in call.request.header:
        return None
    problem = mirror_mismatch(call.request.header, offered.mirrored, arguments)
    return None if problem is None else Rejection(400, HEADER_MISMATCH, problem, call.request.id)


_DECIMAL: Final = re.compile(r"(-?(?:0|[1-9]\d{0,400}))(?:\.0+)?")


def mirror_mismatch(
    header: Mapping[str, str], mirrored: Iterable[Mirrored], arguments: Mapping[str, Any]
) -> str | None:
    """The first difference between the mirrored headers of a call and its arguments, or None.

    Args:
        header: the request's headers, case-insensitive and without duplicates.
        mirrored: the arguments that headers must repeat, from the tool's `inputSchema`.
        arguments: the call's arguments; null counts as missing.
    """
    for mirror in mirrored:
        name, path = mirror.header, ".".join(mirror.path)
        value = value_at(arguments, mirror.path)
        sent = header.get(name)
        if (sent is None) != (value is None):
            return f"{name} is {'missing' if sent is None else 'sent'}; the argument {path} is not"
        if sent is None or value is None:
            continue
        text = headers.decode_value(sent)
        if text is None:
            return f"{name} is not canonical base64 of UTF-8"
        if not _equal(mirror.kind, value, text):
            return f"{name} differs from the argument {path}"
    return None


def _equal(kind: str, value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if kind == "integer" and isinstance(value, int | float):
        match = _DECIMAL.fullmatch(text)
        return match is not None and value == value // 1 and int(match[1]) == int(value)
    return isinstance(value, str) and text == value
