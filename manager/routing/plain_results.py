"""Results that a client gets as they are, or but for the one member that the era of sessions does not know.

Nearly all are of this kind. What anything else means, and how it is written, is for those who read whole
messages (`answers/collect.py`, `legacy_form.py`): here is only said that there is nothing to be done.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

import msgspec

from manager.routing.call_pattern import is_plain_id
from protocol import jsonrpc, names

_Absent = msgspec.UnsetType
_UNSET: Final = msgspec.UNSET
_TYPE: Final = b'"resultType":"complete",'
_ENDS: Final = b"}}"


class _Response(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: msgspec.Raw
    result: msgspec.Raw
    error: msgspec.Raw | _Absent = _UNSET
    method: msgspec.Raw | _Absent = _UNSET


class _Result(msgspec.Struct, gc=False, rename={"meta": "_meta"}):
    """The members that another era knows differently (`legacy_form.py`, `legacy_tools.py`)."""

    resultType: Literal["complete"] | _Absent = _UNSET  # noqa: N815  the protocol's name
    ttlMs: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    cacheScope: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    meta: msgspec.Raw | _Absent = _UNSET
    structuredContent: msgspec.Raw | _Absent = _UNSET  # noqa: N815


class _PlainResponse(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: msgspec.Raw
    result: _Result
    error: msgspec.Raw | _Absent = _UNSET
    method: msgspec.Raw | _Absent = _UNSET


_read: Final = msgspec.json.Decoder(_Response).decode
_read_plain: Final = msgspec.json.Decoder(_PlainResponse).decode


def as_it_is(body: bytes) -> bytes | None:
    """The body, where it is the response of a call that succeeded; None where somebody must read it."""
    try:
        read = _read(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if read.error is not _UNSET or read.method is not _UNSET or not is_plain_id(bytes(read.id)):
        return None
    return body


def in_session(body: bytes) -> bytes | None:
    """The same for a client of the era of sessions: without type of the result and name of the server."""
    try:
        read = _read_plain(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    result = read.result
    if read.error is not _UNSET or read.method is not _UNSET:
        return None
    if result.ttlMs is not _UNSET or result.cacheScope is not _UNSET:
        return None
    structured = result.structuredContent
    if structured is not _UNSET and bytes(structured)[:1] != b"{":
        return None
    identity = bytes(read.id)
    return _without(body, identity, result) if is_plain_id(identity) else None


def _without(body: bytes, identity: bytes, result: _Result) -> bytes | None:
    """The body without the two, where they are first and last of several members; None where they are not."""
    begin = b'{"jsonrpc":"2.0","id":%b,"result":{' % identity
    if not body.startswith(begin):
        return body if result.resultType is _UNSET and result.meta is _UNSET else None
    start, stop = len(begin), len(body) - len(_ENDS)
    if result.resultType is not _UNSET:
        if not body.startswith(_TYPE, start):
            return None
        start += len(_TYPE)
    if result.meta is not _UNSET:
        end = _server_alone(bytes(result.meta))
        if end is None or not body.endswith(end):
            return None
        stop -= len(end) - len(_ENDS)
    return b"%b%b}}" % (begin, body[start:stop]) if start < stop else None


@lru_cache(maxsize=64)  # one server says the same with every result
def _server_alone(meta: bytes) -> bytes | None:
    """How a body ends whose last member is this one; None where that names more than the server."""
    return b',"_meta":%b}}' % meta if jsonrpc.members_of(meta).keys() == {names.META_SERVER} else None
