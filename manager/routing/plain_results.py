"""Results that a client gets as they are, or but for the one member that the era of sessions does not know.

Nearly all are of this kind. What anything else means, and how it is written, is for those who read whole
messages (`answers/collect.py`, `legacy_form.py`): here is only said that there is nothing to be done.
"""

from __future__ import annotations

from typing import Final

import msgspec

from protocol import trim as trims
from protocol.trim import Trim

BEGIN: Final = b'{"jsonrpc":"2.0","id":%b,"result":{'
"""How the response to a call begins, by its id; then one value reaches to the last byte but one."""
_END: Final = b"}}"
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def as_it_is(data: bytes, start: int, identity: bytes, trim: Trim | None = None) -> bytes | None:
    """The response of a call that succeeded; None where somebody must read it.

    Args:
        data: ends with the response.
        start: where it begins.
        identity: the id of the call as JSON text.
        trim: what the server says of it; then it is taken at its word.
    """
    begin = BEGIN % identity
    if not (data.startswith(begin, start) and data.endswith(_END)):
        return None
    body = data[start:] if start else data
    if trim is None:
        try:
            _skip(body[len(begin) - 1 : -1])
        except (msgspec.DecodeError, RecursionError):
            return None
    return body


def in_session(data: bytes, start: int, identity: bytes, trim: Trim | None = None) -> bytes | None:
    """The same for a client of the era of sessions: without type of the result and name of the server."""
    begin = BEGIN % identity
    if not (data.startswith(begin, start) and data.endswith(_END)):
        return None
    inside, end = start + len(begin), len(data) - len(_END)
    if trim is None:
        trim = trims.of(data, inside - 1, end + 1)
        if trim is None:
            return None
    first, last = inside + trim.first, end - trim.last
    return None if first > last else b"".join((begin, data[first:last], _END))
