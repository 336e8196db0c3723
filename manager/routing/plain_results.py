"""Results that a client gets as they are, or but for the one member that the era of sessions does not know.

Nearly all are of this kind. What anything else means, and how it is written, is for those who read whole
messages (`answers/collect.py`, `legacy_form.py`): here is only said that there is nothing to be done.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

import msgspec

from protocol import jsonrpc, names
from protocol.call_pattern import PLAIN_ID

_Absent = msgspec.UnsetType
_UNSET: Final = msgspec.UNSET
_begins: Final = re.compile(rb'{"jsonrpc":"2\.0","id":(?:%b),"result":' % PLAIN_ID).match
"""A response of its three members in their usual order, up to its result.

If then one value reaches from there to the last byte, which is the bracket, nothing else is in it.
"""
_TYPE: Final = b'"resultType":"complete",'
_TYPE_NAME: Final = b'"resultType"'
_META_NAME: Final = b'"_meta"'
_ENDS: Final = b"}}"
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


class _Result(msgspec.Struct, gc=False, rename={"meta": "_meta"}):
    """The members that another era knows differently (`legacy_form.py`, `legacy_tools.py`)."""

    resultType: Literal["complete"] | _Absent = _UNSET  # noqa: N815  the protocol's name
    ttlMs: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    cacheScope: msgspec.Raw | _Absent = _UNSET  # noqa: N815
    meta: msgspec.Raw | _Absent = _UNSET
    structuredContent: msgspec.Raw | _Absent = _UNSET  # noqa: N815


_read: Final = msgspec.json.Decoder(_Result).decode


def as_it_is(body: bytes) -> bytes | None:
    """The body, where it is the response of a call that succeeded; None where somebody must read it."""
    begin = _begins(body)
    if begin is None or not body.endswith(b"}"):
        return None
    try:
        _skip(body[begin.end() : -1])
    except (msgspec.DecodeError, RecursionError):
        return None
    return body


def in_session(body: bytes) -> bytes | None:
    """The same for a client of the era of sessions: without type of the result and name of the server."""
    begin = _begins(body)
    if begin is None or not body.endswith(_ENDS):
        return None
    at = begin.end()
    try:
        result = _read(body[at:-1])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if result.ttlMs is not _UNSET or result.cacheScope is not _UNSET:
        return None
    structured = result.structuredContent
    if structured is not _UNSET and bytes(structured)[:1] != b"{":
        return None
    return _without(body, at + 1, result) if body.startswith(b"{", at) else None


def _without(body: bytes, start: int, result: _Result) -> bytes | None:
    """The body without the two, where they are first and last of several members; None where they are not.

    Args:
        start: where the members of the result begin.
    """
    if result.resultType is _UNSET and result.meta is _UNSET:
        return body
    begin, stop = body[:start], len(body) - len(_ENDS)
    if result.resultType is not _UNSET:
        if not body.startswith(_TYPE, start):
            return None
        start += len(_TYPE)
        if body.find(_TYPE_NAME, start) >= 0:  # perhaps once more
            return None
    if result.meta is not _UNSET:
        end = _server_alone(bytes(result.meta))
        if end is None or not body.endswith(end):
            return None
        stop -= len(end) - len(_ENDS)
        if body.find(_META_NAME, start, stop) >= 0:
            return None
    return b"".join((begin, body[start:stop], _ENDS)) if start < stop else None


@lru_cache(maxsize=64)  # one server says the same with every result
def _server_alone(meta: bytes) -> bytes | None:
    """How a body ends whose last member is this one; None where that names more than the server."""
    return b',"_meta":%b}}' % meta if jsonrpc.members_of(meta).keys() == {names.META_SERVER} else None
