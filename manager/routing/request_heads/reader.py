"""Reads and judges heads, and remembers what it made of them.

A client sends the same head with every call but for the digits of its `Content-Length`, and clients of one
kind the same but for the id of their session. Heads that differ in nothing else are read alike, so the
grammar (`http_server/head.py`), the door's rules (`admission.py`) and what the head says
(`request_metadata.py`) are asked once for all of them. Nothing is remembered of a head that was refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from http_server.head import (
    MALFORMED,
    PLAIN_LENGTH,
    Framing,
    RequestHead,
    framing,
    may_become_head,
    parse_head,
)
from http_server.refusal import AdmissionRefusal
from http_server.request_parser import RefusedHead
from manager.routing.request_heads.admission import AdmissionRules, refuse
from manager.routing.request_heads.request_metadata import RequestMetadata, read_metadata
from protocol import headers

MAX_CACHED_HEADS: Final = 1024
MAX_CACHED_HEAD_BYTES: Final = 2048
"""Bytes of a head that is remembered."""
SESSION_FIELD: Final = re.compile(rb"\r\n[Mm]cp-[Ss]ession-[Ii]d: ([!-~]{1,128})(?=\r\n)")
"""A session's id: whatever visible characters it has, no rule of the door makes a difference between them."""


@dataclass(frozen=True, slots=True)
class AdmittedHead:
    """A head that may go on; `metadata` where it is for an MCP route, without the session that it names."""

    parsed: RequestHead
    framing: Framing
    metadata: RequestMetadata | None

    @property
    def session(self) -> str | None:
        """The id of a session that was read with it."""
        return None if self.metadata is None else self.metadata.fields.get(headers.SESSION)


class ReadHead(NamedTuple):
    """What was read: the head, the bytes of its body (None: in chunks), and the id of a session it names."""

    head: AdmittedHead
    length: int | None
    session: str | None


class HeadReader:
    """What is known of heads under some rules."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules
        self._known: dict[bytes, AdmittedHead] = {}

    def read(self, raw: bytes) -> ReadHead | RefusedHead:
        """What a whole head is."""
        is_short = len(raw) <= MAX_CACHED_HEAD_BYTES
        named = SESSION_FIELD.search(raw) if is_short else None
        bare = raw if named is None else _without(raw, named)
        digits = PLAIN_LENGTH.search(bare) if is_short else None
        if digits is None:
            judged = self._judge(raw)
            if isinstance(judged, RefusedHead):
                return judged
            return ReadHead(judged, judged.framing.length, judged.session)
        key, length = _without(bare, digits), int(digits[1])
        known = self._known.get(key)
        if known is None or length > self._rules.body_cap:
            judged = self._judge(bare)
            if isinstance(judged, RefusedHead):
                return judged
            known = self._remember(key, judged)
        return ReadHead(known, length, known.session if named is None else named[1].decode())

    def _remember(self, key: bytes, judged: AdmittedHead) -> AdmittedHead:
        if len(self._known) >= MAX_CACHED_HEADS:
            self._known.clear()
        self._known[key] = judged
        return judged

    def refuse_begin(self, begin: bytes) -> AdmissionRefusal | None:
        """Return why the beginning of a head can never be admitted; None where it can."""
        if len(begin) > self._rules.head_cap:
            return self._rules.head_too_large
        return None if may_become_head(begin) else MALFORMED

    def _judge(self, raw: bytes) -> AdmittedHead | RefusedHead:
        parsed = self._rules.head_too_large if len(raw) > self._rules.head_cap else parse_head(raw)
        if isinstance(parsed, AdmissionRefusal):
            return RefusedHead(parsed)
        refusal = refuse(parsed, self._rules)
        if refusal is not None:
            return RefusedHead(refusal, parsed)
        return AdmittedHead(parsed, framing(raw, parsed), read_metadata(parsed))


def _without(text: bytes, found: re.Match[bytes]) -> bytes:
    """The text but for the group that was found."""
    begin, end = found.span(1)
    return text[:begin] + text[end:]
