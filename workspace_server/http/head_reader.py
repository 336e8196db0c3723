"""Parses and admits request heads, and caches the results. Pure.

The manager sends the same head with every call of a tool but for the digits of its `Content-Length`. Heads
that differ in nothing else are parsed and admitted once. Refused heads are never cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

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
from protocol import headers
from workspace_server.http.admission import MAX_BODY, Admission

MAX_HEAD: Final = 64 * 1024
"""Bytes; the manager admits smaller heads, and adds little."""
REMEMBERED: Final = 1024
"""Heads in each cache; a full cache is emptied."""
LONGEST: Final = 2048
"""Bytes of the longest head that is cached."""
_TOO_LARGE: Final = AdmissionRefusal(431, f"the head is larger than {MAX_HEAD} bytes")
_SINGLE: Final = frozenset({headers.VERSION.lower(), headers.METHOD.lower(), headers.NAME.lower()})


class Fields(Mapping[str, str]):
    """Header fields by case-insensitive name; `by_name` has the names in lower case."""

    __slots__ = ("_by_name",)

    def __init__(self, by_name: Mapping[str, str]) -> None:
        self._by_name = by_name

    def __getitem__(self, name: str) -> str:
        return self._by_name[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def get(self, name: str, default: Any = None) -> Any:
        """The same as `Mapping.get`, without raising an exception on the way."""
        return self._by_name.get(name.lower(), default)


@dataclass(slots=True, eq=False)
class Head:
    """An admitted head; the same object for all that differ in `Content-Length` alone.

    Attributes:
        parsed: method, target and header fields in order.
        path: one of `admission.ROUTES`.
        fields: header fields; of a repeated one the first value.
        query: members of the query; of a repeated one the first value.
        repeated: what is wrong where a header field of MCP routing is repeated.
        framing: how the connection goes on behind the head.
        is_known: whether the head was received before.
    """

    parsed: RequestHead
    path: str
    fields: Fields
    query: Mapping[str, str]
    repeated: str | None
    framing: Framing
    is_known: bool = False


class Read(NamedTuple):
    """One admitted head as it was received; `length` in bytes of its body, None for a chunked body."""

    head: Head
    length: int | None


class HeadReader:
    """The heads of one instance."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._by_key: dict[bytes, Head] = {}  # by their bytes without the digits of the length
        self._by_bytes: dict[bytes, Read] = {}

    def read(self, raw: bytes) -> Read | RefusedHead:
        """Read a whole head, the empty line at its end included."""
        return self._by_bytes.get(raw) or self._read(raw)

    def same(self, raw: bytes) -> Read | None:
        """Return a head that was received before with the very same bytes; None for any other one."""
        return self._by_bytes.get(raw)

    def _read(self, raw: bytes) -> Read | RefusedHead:
        digits = PLAIN_LENGTH.search(raw) if len(raw) <= LONGEST else None
        if digits is None:
            head = self._admit(raw)
            return head if isinstance(head, RefusedHead) else Read(head, head.framing.length)
        begin, end = digits.span(1)
        key, length = raw[:begin] + raw[end:], int(raw[begin:end])
        known = self._by_key.get(key)
        if known is not None and length <= MAX_BODY:
            known.is_known = True
            if len(self._by_bytes) >= REMEMBERED:
                self._by_bytes.clear()
            read = self._by_bytes[raw] = Read(known, length)
            return read
        head = self._admit(raw)
        if isinstance(head, RefusedHead):
            return head
        if len(self._by_key) >= REMEMBERED:
            self._by_key.clear()
        self._by_key[key] = head
        return Read(head, length)

    def refuse_begin(self, begin: bytes) -> AdmissionRefusal | None:
        """Return why the beginning of a head can never be admitted; None where it can."""
        if len(begin) > MAX_HEAD:
            return _TOO_LARGE
        return None if may_become_head(begin) else MALFORMED

    def _admit(self, raw: bytes) -> Head | RefusedHead:
        parsed = _TOO_LARGE if len(raw) > MAX_HEAD else parse_head(raw)
        if isinstance(parsed, AdmissionRefusal):
            return RefusedHead(parsed)
        refusal = self._admission.refuse(parsed)
        return _head(raw, parsed) if refusal is None else RefusedHead(refusal, parsed)


def _head(raw: bytes, parsed: RequestHead) -> Head:
    sent = [
        (name.decode().lower(), value.decode("utf-8", "surrogateescape")) for name, value in parsed.headers
    ]
    path, _, query = parsed.target.partition("?")
    return Head(
        parsed,
        path,
        Fields(dict(reversed(sent))),
        dict(reversed(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))),
        _repeated([name for name, _ in sent]),
        framing(raw, parsed),
    )


def _repeated(sent: list[str]) -> str | None:
    for name, count in Counter(sent).items():
        if count > 1 and (name in _SINGLE or name.startswith(headers.PARAM_PREFIX)):
            return f"header {name} is sent {count} times"
    return None
