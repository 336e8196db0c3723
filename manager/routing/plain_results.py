"""Results that a client gets as they are, or but for the one member that the era of sessions does not know.

Nearly all are of this kind. What anything else means, and how it is written, is for those who read whole
messages (`answers/collect.py`, `legacy_form.py`): here is only said that there is nothing to be done.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from protocol import jsonrpc, names
from protocol.call_pattern import is_plain_id

_Absent = msgspec.UnsetType
_UNSET: Final = msgspec.UNSET
_BEGIN: Final = b'{"jsonrpc":"2.0","id":'
_RESULT: Final = b',"result":'
_LONGEST_BEGIN: Final = len(_BEGIN) + 66 + len(_RESULT)
_TYPE: Final = b'"resultType":"complete",'
_META: Final = b',"_meta":'
_LONGEST_META: Final = 1024
"""Bytes of the member that names the server; a longer one is read by others."""
_ENDS: Final = b"}}"
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


class _Result(msgspec.Struct, gc=False, rename={"meta": "_meta"}):
    """The members that another era knows differently (`legacy_form.py`, `legacy_tools.py`)."""

    resultType: msgspec.Raw | _Absent = _UNSET  # noqa: N815  the protocol's name
    ttlMs: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    cacheScope: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    meta: msgspec.Raw | _Absent = _UNSET
    structuredContent: msgspec.Raw | _Absent = _UNSET  # noqa: N815


_read: Final = msgspec.json.Decoder(_Result).decode


def _result_at(body: bytes) -> int:
    """Where the result begins in a response of its three members in their usual order; -1 in any other.

    If then one value reaches from there to the last byte, which is the bracket, nothing else is in it.
    """
    end = body.find(_RESULT, len(_BEGIN), _LONGEST_BEGIN)
    if end < 0 or not body.startswith(_BEGIN) or not is_plain_id(body[len(_BEGIN) : end]):
        return -1
    return end + len(_RESULT)


def as_it_is(body: bytes) -> bytes | None:
    """The body, where it is the response of a call that succeeded; None where somebody must read it."""
    at = _result_at(body)
    if at < 0 or not body.endswith(b"}"):
        return None
    try:
        _skip(body[at:-1])
    except (msgspec.DecodeError, RecursionError):
        return None
    return body


def in_session(body: bytes) -> bytes | None:
    """The same for a client of the era of sessions: without type of the result and name of the server.

    These are left out where they are first and last of several members. What is left is then read, so that
    nothing is left out that was something else, and nothing is in it that such a client does not know.
    """
    at = _result_at(body)
    if at < 0 or not body.endswith(_ENDS) or not body.startswith(b"{", at):
        return None
    start, stop = at + 1, len(body) - len(_ENDS)
    if body.startswith(_TYPE, start):
        start += len(_TYPE)
    meta = body.rfind(_META, max(start, stop - _LONGEST_META), stop)
    if meta >= 0 and _names_server_alone(body[meta + len(_META) : stop]):
        stop = meta
    rest = b"{%b}" % body[start:stop]
    try:
        read = _read(rest)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not (read.resultType is read.ttlMs is read.cacheScope is read.meta is _UNSET):
        return None
    structured = read.structuredContent
    is_known = structured is _UNSET or bytes(structured)[:1] == b"{"
    return b"%b%b}" % (body[:at], rest) if is_known else None


@lru_cache(maxsize=64)  # one server says the same with every result
def _names_server_alone(meta: bytes) -> bool:
    """Whether a text is an object that names the server, and says nothing else."""
    return jsonrpc.members_of(meta).keys() == {names.META_SERVER}
