"""Reads and judges heads, and remembers what it made of them. Pure.

The manager sends the same head with every call of a tool but for the digits of its `Content-Length`, and two
heads that differ in nothing else are read alike. So the grammar (`http_server/head.py`) and the door
(`admission.py`) are asked once for each head. Nothing is remembered of a head that was refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
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
from protocol import headers
from workspace_server.http.admission import MAX_BODY, Admission

MAX_HEAD: Final = 64 * 1024
"""Bytes; what the manager lets in is smaller, and it adds little."""
REMEMBERED: Final = 1024
LONGEST: Final = 2048
"""Bytes of a head that is remembered."""
_TOO_LARGE: Final = AdmissionRefusal(431, f"the head is larger than {MAX_HEAD} bytes")
_SINGLE: Final = frozenset({headers.VERSION.lower(), headers.METHOD.lower(), headers.NAME.lower()})


class Fields(Mapping[str, str]):
    """Header fields by name, however it is spelt. `by_name` has the names in lower case."""

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
        """The same without an exception on the way."""
        return self._by_name.get(name.lower(), default)


@dataclass(frozen=True, slots=True)
class Refused:
    """A head that does not get in; `method` where it could be read."""

    refusal: AdmissionRefusal
    method: str = ""


@dataclass(slots=True, eq=False)
class Head:
    """A head that may go on; the same object for all that are known to be alike.

    Attributes:
        path: one of `door.ROUTES`.
        fields: its header fields; of one that was sent several times the first.
        query: the members of its query; of one that was sent several times the first.
        repeated: what is wrong with it where a field was sent several times that says what is called.
        framing: how the connection goes on behind it.
        is_known: whether it came before.
    """

    path: str
    fields: Fields
    query: Mapping[str, str]
    repeated: str | None
    framing: Framing
    is_known: bool = False


class Heads:
    """What is known of heads at one door."""

    def __init__(self, door: Admission) -> None:
        self._door = door
        self._known: dict[bytes, Head] = {}
        self._same: dict[bytes, tuple[Head, int]] = {}

    def read(self, raw: bytes) -> tuple[Head, int | None] | Refused:
        """What a whole head is, and the length of its body in bytes (None: in chunks)."""
        return self._same.get(raw) or self._read(raw)

    def same(self, raw: bytes) -> tuple[Head, int] | None:
        """The same for a head that came before with the very same bytes; None for any other one."""
        return self._same.get(raw)

    def _read(self, raw: bytes) -> tuple[Head, int | None] | Refused:
        digits = PLAIN_LENGTH.search(raw) if len(raw) <= LONGEST else None
        if digits is None:
            judged = self._judge(raw)
            return judged if isinstance(judged, Refused) else (judged, judged.framing.length)
        begin, end = digits.span(1)
        key, length = raw[:begin] + raw[end:], int(raw[begin:end])
        known = self._known.get(key)
        if known is not None and length <= MAX_BODY:
            known.is_known = True
            if len(self._same) >= REMEMBERED:
                self._same.clear()
            self._same[raw] = known, length
            return known, length
        judged = self._judge(raw)
        if isinstance(judged, Refused):
            return judged
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = judged
        return judged, length

    def hopeless(self, begin: bytes) -> AdmissionRefusal | None:
        """Why what has come of a head can never become one that gets in, if so."""
        if len(begin) > MAX_HEAD:
            return _TOO_LARGE
        return None if begin in (b"", b"\r") or may_become_head(begin) else MALFORMED

    def _judge(self, raw: bytes) -> Head | Refused:
        facts = _TOO_LARGE if len(raw) > MAX_HEAD else parse_head(raw)
        if isinstance(facts, AdmissionRefusal):
            return Refused(facts)
        refusal = self._door.refuse(facts)
        return _head(raw, facts) if refusal is None else Refused(refusal, facts.method)


def _head(raw: bytes, facts: RequestHead) -> Head:
    sent = [
        (name.decode().lower(), value.decode("utf-8", "surrogateescape")) for name, value in facts.headers
    ]
    path, _, query = facts.target.partition("?")
    return Head(
        path,
        Fields(dict(reversed(sent))),
        dict(reversed(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))),
        _repeated([name for name, _ in sent]),
        framing(raw, facts),
    )


def _repeated(sent: list[str]) -> str | None:
    for name, count in Counter(sent).items():
        if count > 1 and (name in _SINGLE or name.startswith(headers.PARAM_PREFIX)):
            return f"header {name} is sent {count} times"
    return None
