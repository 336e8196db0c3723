"""Results that a client gets as they are, or but for the one member that the era of sessions does not know.

Nearly all are of this kind. What anything else means, and how it is written, is for those who read whole
messages (`forwarding/messages.py`, `legacy_result.py`): here is only said that there is nothing to be done.
"""

from __future__ import annotations

from typing import Final

import msgspec

from protocol.internal import result_trim as trims
from protocol.internal.result_trim import ResultTrim

RESULT_BEGIN: Final = b'{"jsonrpc":"2.0","id":%b,"result":{'
"""How the response to a call begins, by its id; then one value reaches to the last byte but one."""
RESULT_END: Final = b"}}"
"""How it ends."""
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def is_forwardable(
    data: bytes, start: int, end: int, identity: bytes, trim: ResultTrim | None = None
) -> bool:
    """Whether this is the response of a call that succeeded; where not, somebody must read it.

    Args:
        data: the response is in it.
        start: where it begins.
        end: where it ends.
        identity: the id of the call as JSON text.
        trim: what the server says of it; then it is taken at its word.
    """
    begin = RESULT_BEGIN % identity
    if not (data.startswith(begin, start, end) and data.endswith(RESULT_END, start, end)):
        return False
    if trim is None:
        try:
            _skip(data[start + len(begin) - 1 : end - 1])
        except (msgspec.DecodeError, RecursionError):
            return False
    return True


def for_session_client(
    data: bytes, start: int, end: int, identity: bytes, trim: ResultTrim | None = None
) -> bytes | None:
    """Such a response for a client of the era of sessions: without type of the result and name of the server.

    None where somebody must read it.
    """
    begin = RESULT_BEGIN % identity
    if not (data.startswith(begin, start, end) and data.endswith(RESULT_END, start, end)):
        return None
    inside, behind = start + len(begin), end - len(RESULT_END)
    if trim is None:
        trim = trims.compute_trim(data, inside - 1, behind + 1)
        if trim is None:
            return None
    first, last = inside + trim.first, behind - trim.last
    return None if first > last else b"".join((begin, data[first:last], RESULT_END))
