"""Reads request heads of a workspace server: admission, header fields by name, and the query. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from lm_tools_bridge.http_server.parsing.head import Framing, RequestHead, framing
from lm_tools_bridge.http_server.parsing.head_reader import HeadReader, ReadHead, RefusedHead
from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.protocol import headers, trace_context
from workspace_server.http.admission import MAX_BODY, Admission

MAX_HEAD: Final = 64 * 1024
"""Bytes; the manager admits smaller heads, and adds little."""
_TOO_LARGE: Final = AdmissionRefusal(431, f"the head is larger than {MAX_HEAD} bytes")
_TRACE: Final = b"\r\n%b: " % trace_context.NAME.encode()
_TRACE_VALUE: Final = len(trace_context.made(1))
_END: Final = b"\r\n\r\n"
_TRACE_SIZE: Final = len(_TRACE) + _TRACE_VALUE + len(_END)
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


@dataclass(frozen=True, slots=True, eq=False)
class ManagerHead:
    """An admitted head; the same object for all that differ in `Content-Length` alone.

    Attributes:
        parsed: method, target and header fields in order.
        path: one of `admission.ROUTES`.
        fields: header fields; of a repeated one the first value.
        query: members of the query; of a repeated one the first value.
        repeated: what is wrong where a header field of MCP routing is repeated.
        framing: how the connection goes on behind the head.
    """

    parsed: RequestHead
    path: str
    fields: Fields
    query: Mapping[str, str]
    repeated: str | None
    framing: Framing


class ManagerHeadReader(HeadReader[ManagerHead]):
    """The heads of one instance."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(MAX_HEAD, _TOO_LARGE, MAX_BODY)
        self._admission = admission

    def read(self, raw: bytes) -> ReadHead[ManagerHead] | RefusedHead:
        """See `HeadReader`. A trace context at the end is new in each head, so it is cut off before."""
        end = len(raw) - _TRACE_SIZE
        if raw.startswith(_TRACE, end):
            raw = raw[:end] + _END
        return self._by_bytes.get(raw) or self._read(raw)

    def admit(self, raw: bytes, parsed: RequestHead) -> ManagerHead | AdmissionRefusal:
        """Apply the rules of admission, and decode the head."""
        return self._admission.refuse(parsed) or _decoded(raw, parsed)


def trace_of(raw: bytes) -> str:
    """The trace context that the manager made and wrote at the end of a head; empty for none."""
    end = len(raw) - _TRACE_SIZE
    if not raw.startswith(_TRACE, end):
        return ""
    return raw[end + len(_TRACE) : -len(_END)].decode("latin-1")


def _decoded(raw: bytes, parsed: RequestHead) -> ManagerHead:
    sent = [
        (name.decode().lower(), value.decode("utf-8", "surrogateescape")) for name, value in parsed.headers
    ]
    path, _, query = parsed.target.partition("?")
    return ManagerHead(
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
