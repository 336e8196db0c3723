"""Reads request heads of the manager's port: admission, and what a head says at an MCP route. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import (
    Framing,
    HeadReader,
    ReadHead,
    RefusedHead,
    RequestHead,
    framing,
)
from lm_tools_bridge.protocol import headers, trace_context
from manager.routing.request_heads.admission import AdmissionRules, refuse
from manager.routing.request_heads.request_metadata import RequestMetadata, read_metadata

SESSION_FIELD: Final = re.compile(rb"\r\n[Mm]cp-[Ss]ession-[Ii]d: ([!-~]{1,128})(?=\r\n)")
"""A session id: no rule of admission depends on which visible characters it has."""

_TRACE: Final = b"\r\n%b: " % trace_context.NAME.encode()
_END: Final = b"\r\n\r\n"
_TRACE_SIZE: Final = len(_TRACE) + len(trace_context.make_traceparent(1)) + len(_END)


@dataclass(frozen=True, slots=True)
class ClientHead:
    """An admitted head.

    Attributes:
        parsed: method, target and header fields.
        framing: how the connection goes on behind the head.
        metadata: what it says at an MCP route, without the session id; None for other routes.
    """

    parsed: RequestHead
    framing: Framing
    metadata: RequestMetadata | None


class ClientHeadReader(HeadReader[ClientHead]):
    """The heads of the manager's port, under its rules of admission."""

    def __init__(self, rules: AdmissionRules) -> None:
        super().__init__(rules.head_cap, rules.head_too_large, rules.body_cap, SESSION_FIELD)
        self._rules = rules

    def read(self, raw: bytes) -> ReadHead[ClientHead] | RefusedHead:
        """See `HeadReader`. A trace context that another manager made is cut off before: it is new in each
        head, and that manager writes it last."""
        if not self._rules.from_managers or not raw.startswith(_TRACE, len(raw) - _TRACE_SIZE):
            return super().read(raw)
        trace = raw[len(_TRACE) - _TRACE_SIZE : -len(_END)].decode("latin-1")
        if not trace_context.is_made(trace):
            return super().read(raw)
        read = super().read(without_trace(raw))
        return read if isinstance(read, RefusedHead) else read._replace(trace=trace)

    def admit(self, raw: bytes, parsed: RequestHead) -> ClientHead | AdmissionRefusal:
        """Apply the rules of admission, and read the metadata of a request at an MCP route."""
        refusal = refuse(parsed, self._rules)
        if refusal is not None:
            return refusal
        metadata = read_metadata(parsed, from_manager=self._rules.from_managers)
        return ClientHead(parsed, framing(raw, parsed), metadata)

    def session_of(self, head: ClientHead) -> str | None:
        """Return the session id as the client spells it, which may be malformed."""
        return None if head.metadata is None else head.metadata.fields.get(headers.SESSION)


def without_trace(raw: bytes) -> bytes:
    """A head without the trace context at its end."""
    return raw[:-_TRACE_SIZE] + _END
