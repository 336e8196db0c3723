"""Parses and admits request heads, and caches the results. Pure.

A client sends the same head with every call but for the digits of its `Content-Length`, and clients of one
kind the same but for their session ids. Heads that differ in nothing else are parsed and admitted once.
Refused heads are never cached.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from lm_tools_bridge.http_server.parsing.head import (
    MALFORMED,
    PLAIN_LENGTH,
    Framing,
    RequestHead,
    may_become_head,
    parse_head,
)
from lm_tools_bridge.http_server.refusal import AdmissionRefusal

MAX_CACHED_HEADS: Final = 1024
"""Heads in each cache; a full cache is emptied."""
MAX_CACHED_HEAD_BYTES: Final = 2048
"""Bytes of the longest head that is cached."""


@dataclass(frozen=True, slots=True)
class RefusedHead:
    """A head that is not admitted; `parsed` where its grammar is right."""

    refusal: AdmissionRefusal
    parsed: RequestHead | None = None


class AdmittedHead(Protocol):
    """What admission makes of a head; a program adds what it needs."""

    @property
    def parsed(self) -> RequestHead:
        """Method, target and header fields."""

    @property
    def framing(self) -> Framing:
        """How the connection goes on behind the head."""


Head = TypeVar("Head", bound=AdmittedHead)


class ReadHead(NamedTuple, Generic[Head]):
    """An admitted head as it was received.

    Attributes:
        head: what it says; the same object for equal heads.
        length: bytes of the body; None for a chunked body.
        session: the session id that it names, if the reader looks for one.
        is_known: whether an equal head was received before.
        trace: the `traceparent` that a reader cut off before; empty for none.
    """

    head: Head
    length: int | None
    session: str | None
    is_known: bool
    trace: str = ""


class HeadReader(ABC, Generic[Head]):
    """The heads of one server.

    Args:
        head_cap: the most bytes of a head.
        too_large: the refusal of a larger one.
        body_cap: the most bytes of a body.
        session: matches the header field of a session id, whose value (group 1) must not influence admission.
    """

    def __init__(
        self,
        head_cap: int,
        too_large: AdmissionRefusal,
        body_cap: int,
        session: re.Pattern[bytes] | None = None,
    ) -> None:
        self._head_cap = head_cap
        self._too_large = too_large
        self._body_cap = body_cap
        self._session = session
        self._by_key: dict[bytes, Head] = {}  # by their bytes without the length's digits and the session id
        self._by_bytes: dict[bytes, ReadHead[Head]] = {}

    @abstractmethod
    def admit(self, raw: bytes, parsed: RequestHead) -> Head | AdmissionRefusal:
        """Apply the rules of admission to a head; `raw` is the same head as bytes."""

    def session_of(self, head: Head) -> str | None:
        """Return the session id of a head in which the pattern found none."""
        return None

    def read(self, raw: bytes) -> ReadHead[Head] | RefusedHead:
        """Read a whole head, the empty line at its end included."""
        return self._by_bytes.get(raw) or self._read(raw)

    def refuse_begin(self, begin: bytes) -> AdmissionRefusal | None:
        """Return why the beginning of a head can never be admitted; None where it can."""
        if len(begin) > self._head_cap:
            return self._too_large
        return None if may_become_head(begin) else MALFORMED

    def _read(self, raw: bytes) -> ReadHead[Head] | RefusedHead:
        if len(raw) > MAX_CACHED_HEAD_BYTES:
            return self._read_uncached(raw)
        session_match = None if self._session is None else self._session.search(raw)
        bare = raw if session_match is None else _without(raw, session_match)
        digits = PLAIN_LENGTH.search(bare)
        if digits is None:
            return self._read_uncached(raw)
        key, length = _without(bare, digits), int(digits[1])
        head = self._by_key.get(key)
        is_known = head is not None and length <= self._body_cap
        if head is None or not is_known:
            judged = self._judge(bare)
            if isinstance(judged, RefusedHead):
                return judged
            head = _put(self._by_key, key, judged)
        read = ReadHead(
            head,
            length,
            self.session_of(head) if session_match is None else session_match[1].decode(),
            is_known,
        )
        return _put(self._by_bytes, raw, read) if is_known else read

    def _read_uncached(self, raw: bytes) -> ReadHead[Head] | RefusedHead:
        head = self._judge(raw)
        if isinstance(head, RefusedHead):
            return head
        return ReadHead(head, head.framing.length, self.session_of(head), is_known=False)

    def _judge(self, raw: bytes) -> Head | RefusedHead:
        parsed = self._too_large if len(raw) > self._head_cap else parse_head(raw)
        if isinstance(parsed, AdmissionRefusal):
            return RefusedHead(parsed)
        admitted = self.admit(raw, parsed)
        return RefusedHead(admitted, parsed) if isinstance(admitted, AdmissionRefusal) else admitted


_Value = TypeVar("_Value")


def _put(cache: dict[bytes, _Value], key: bytes, value: _Value) -> _Value:
    """Add to a cache, which is emptied before where it is full."""
    if len(cache) >= MAX_CACHED_HEADS:
        cache.clear()
    cache[key] = value
    return value


def _without(text: bytes, match: re.Match[bytes]) -> bytes:
    """The text without the first group of a match."""
    begin, end = match.span(1)
    return text[:begin] + text[end:]
