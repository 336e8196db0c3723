"""Reads request heads of the manager's port: admission, and what a head says at an MCP route. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from http_server.head import Framing, RequestHead, framing
from http_server.head_reader import HeadReader
from http_server.refusal import AdmissionRefusal
from manager.routing.request_heads.admission import AdmissionRules, refuse
from manager.routing.request_heads.request_metadata import RequestMetadata, read_metadata
from protocol import headers

SESSION_FIELD: Final = re.compile(rb"\r\n[Mm]cp-[Ss]ession-[Ii]d: ([!-~]{1,128})(?=\r\n)")
"""A session id: no rule of admission depends on which visible characters it has."""


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
