"""One MCP request as the method handlers see it, and the values they can answer with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import apps_extension, headers, inbound, jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import Inbound, Rejection
from lm_tools_bridge.protocol.internal import client_traits
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.protocol.internal.client_traits import NameRules
from lm_tools_bridge.protocol.jsonrpc import Request
from lm_tools_bridge.protocol.names import LATEST_MODERN
from workspace_server.call_context import Notify, ignore_notification
from workspace_server.catalog.server_view import view_of_server
from workspace_server.catalog.view import View

INTERNAL_CLIENT: Final = "lm-tools-bridge-internal"
# Of milliseconds: 16 minutes, more than any client waits. It keeps the conversion of foreign text short.
_LIST_WAIT_DIGITS: Final = 6

Outcome = Mapping[str, Any] | msgspec.Raw | Rejection
"""Members of a result that this server writes, another server's whole result as its bytes, or an error."""


class CallClock(msgspec.Struct, gc=False):
    """The times of one request in monotonic seconds; nested calls do not count apart.

    Attributes:
        source: id of the source that the request is for; empty if it is for none.
        source_s, approval_s: how long the source took, and before it a person to approve the call.
        is_task: whether the answer is a task, as which the call goes on.
    """

    source: str = ""
    source_s: float = 0.0
    approval_s: float = 0.0
    is_task: bool = False

    def add(self, source: str, seconds: float) -> None:
        """Add the time that a source took."""
        self.source = source
        self.source_s += seconds

    def waited(self, source: str, seconds: float) -> None:
        """Add the time that a person took to decide about a call of this source."""
        self.source = source
        self.approval_s += seconds

    @property
    def timing(self) -> CallTiming | None:
        """What the manager is told; None if the request was not for a source."""
        if not self.source:
            return None
        source_us, approval_us = round(self.source_s * 1e6), round(self.approval_s * 1e6)
        return CallTiming(self.source, source_us, approval_us, self.is_task)


class McpRequest(msgspec.Struct, frozen=True):
    """A request whose envelope was checked.

    Attributes:
        message: the JSON-RPC request.
        inbound: the members of its parameters, each as the bytes that were received.
        header: the HTTP headers, case-insensitive.
        query: the decoded query parameters.
        notify: sends one notification to the client on this response, before the result.
        view: the callable tools when the request arrived; None if finding them out has to wait for a source.
        arrived: when it arrived, in monotonic seconds.
        trace: the trace context that the manager made for it; empty for none.
        clock: where its time goes.
    """

    message: Request
    inbound: Inbound
    header: Mapping[str, str]
    query: Mapping[str, str]
    notify: Notify
    view: View | None = None
    arrived: float = msgspec.field(default_factory=time.monotonic)
    trace: str = ""
    clock: CallClock = msgspec.field(default_factory=CallClock)

    @property
    def id(self) -> bytes:
        """The JSON-RPC id as JSON text."""
        return self.message.id

    @property
    def method(self) -> str:
        """The JSON-RPC method."""
        return self.message.method

    @property
    def list_wait_s(self) -> float | None:
        """How many seconds it may still wait for sources without a known list; None if it is not said."""
        header_text = self.header.get(headers.LIST_WAIT, "")
        if not (header_text.isascii() and header_text.isdigit() and len(header_text) <= _LIST_WAIT_DIGITS):
            return None
        return max(0.0, self.arrived + int(header_text) / 1000 - time.monotonic())

    @property
    def client(self) -> str:
        """The name of the client program; empty if it does not say."""
        about = self.inbound.meta.get(names.META_CLIENT)
        name = None if about is None else jsonrpc.members_of(about).get("name")
        return "" if name is None else jsonrpc.text_of(name) or ""

    @property
    def model_sees(self) -> str:
        """What of a result its client shows to its model (`headers.MODEL_SEES`); empty if that is unknown."""
        return str(self.header.get(headers.MODEL_SEES, ""))

    @property
    def model_sees_both(self) -> bool:
        """Whether its client shows its model the text of results and their structured content."""
        return "both" in self.model_sees.split()

    @property
    def name_rules(self) -> NameRules:
        """What its client needs of the names of tools."""
        return client_traits.from_header(self.header.get(headers.TOOL_NAMES, ""))

    @property
    def shows_apps(self) -> bool:
        """Whether its client shows apps of servers to its user."""
        about = self.inbound.meta.get(names.META_CAPABILITIES)
        capabilities = None if about is None else msgspec.json.decode(about)
        return isinstance(capabilities, Mapping) and apps_extension.is_declared(capabilities)

    @property
    def server(self) -> str:
        """The name of the only MCP server that its client addresses; empty if it addresses the workspace."""
        return headers.decode_value(self.header.get(headers.SERVER, "")) or ""

    def sees(self, view: View) -> View:
        """The part of a view that its client may see."""
        if headers.SERVER in self.header:
            view = view_of_server(view, self.server)
        return view if view.apps is None or self.shows_apps else view.for_models()

    def value(self, member: str, default: Any = None) -> Any:
        """One parameter, decoded.

        Raises:
            msgspec.DecodeError: the parameter cannot be decoded (a lone surrogate, nested too deeply).
        """
        raw = self.inbound.params.get(member)
        return default if raw is None else msgspec.json.decode(raw)

    def invalid(self, message: str) -> Rejection:
        """The error for invalid parameters (-32602)."""
        return Rejection(200, jsonrpc.INVALID_PARAMS, message, self.id)

    def refuse(self, refusal: Refusal, **data: Any) -> Rejection:
        """A refusal as a JSON-RPC error; `data` is added to the error's data."""
        members = {**refusal.data(), **data}
        return Rejection(200, refusal.reason.code, refusal.text, self.id, members)


def internal_request(tool: str) -> McpRequest:
    """The request for a call on the internal channel. Nobody receives its notifications."""
    meta = inbound.modern_meta(msgspec.Raw(b"{}"), jsonrpc.raw({"name": INTERNAL_CLIENT, "version": "1"}))
    body = jsonrpc.request(b"1", names.TOOLS_CALL, {"name": tool, "_meta": meta})
    header = {
        headers.VERSION: LATEST_MODERN,
        headers.METHOD: names.TOOLS_CALL,
        headers.NAME: headers.encode_value(tool),
    }
    message = inbound.classify(header, body)
    assert isinstance(message, Inbound)  # noqa: S101  narrows the type: the envelope is our own
    assert isinstance(message.message, Request)  # noqa: S101  narrows the type
    return McpRequest(message.message, message, header, {}, ignore_notification)
