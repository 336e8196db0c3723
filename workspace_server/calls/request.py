"""One request as a method sees it, and the values a method can answer with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protocol import headers, inbound, jsonrpc, names
from protocol.errors import Refusal
from protocol.inbound import Inbound, Rejection
from protocol.jsonrpc import Request
from protocol.versions import LATEST_MODERN
from workspace_server.call_context import Notify, unheard
from workspace_server.catalog.view import View

INTERNAL_CLIENT: Final = "lm-tools-bridge-internal"

Outcome = Mapping[str, Any] | msgspec.Raw | Rejection
"""Members of a result that we author, a third party's whole result as its bytes, or an error."""


class McpRequest(msgspec.Struct, frozen=True):
    """A request whose envelope is in order.

    `inbound` holds the members of the parameters as the bytes that came. `header` is case-insensitive.
    `notify` sends one notification to the caller, before the result and on the same answer. `view` is what
    could be called when it came, where nobody had to be asked.
    """

    request: Request
    inbound: Inbound
    header: Mapping[str, str]
    query: Mapping[str, str]
    notify: Notify
    view: View | None = None

    def value(self, member: str, default: Any = None) -> Any:
        """One parameter, decoded.

        Raises:
            msgspec.DecodeError: its text is no JSON that can be read (a lone surrogate, too deep).
        """
        raw = self.inbound.params.get(member)
        return default if raw is None else msgspec.json.decode(raw)

    def invalid(self, message: str) -> Rejection:
        """The answer to parameters that do not fit."""
        return Rejection(200, jsonrpc.INVALID_PARAMS, message, self.request.id)

    def refuse(self, refusal: Refusal, **data: Any) -> Rejection:
        """A refusal as a JSON-RPC error; `data` is added to its data."""
        members = {**refusal.data(), **data}
        return Rejection(200, refusal.reason.code, refusal.text, self.request.id, members)


def internal_request(tool: str) -> McpRequest:
    """A call that came over no client's connection: nobody hears what it tells before its result."""
    meta = inbound.modern_meta(msgspec.Raw(b"{}"), jsonrpc.raw({"name": INTERNAL_CLIENT, "version": "1"}))
    body = jsonrpc.request(b"1", names.TOOLS_CALL, {"name": tool, "_meta": meta})
    header = {
        headers.VERSION: LATEST_MODERN,
        headers.METHOD: names.TOOLS_CALL,
        headers.NAME: headers.encode_value(tool),
    }
    message = inbound.classify(header, body)
    assert isinstance(message, Inbound)  # noqa: S101  narrows the type: we wrote it
    assert isinstance(message.message, Request)  # noqa: S101  the same
    return McpRequest(message.message, message, header, {}, unheard)
