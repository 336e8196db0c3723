"""Recognises results that can be forwarded without parsing: unchanged, or trimmed for session clients.

Nearly all results are of this kind. All others are parsed (`forwarding/messages.py`) and converted
(`legacy_result.py`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim

RESULT_BEGIN: Final = b'{"jsonrpc":"2.0","id":%b,"result":{'
"""Begin of a success response to the request with this id; its result object continues up to `RESULT_END`."""
RESULT_END: Final = b"}}"
"""End of the response: the braces of the result and of the response."""
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def is_forwardable(
    data: bytes, start: int, end: int, identity: bytes, trim: ResultTrim | None = None
) -> bool:
    """Whether `data[start:end]` is a success response to this request. If not, it has to be parsed.

    Args:
        identity: the id of the request as JSON text.
        trim: the trim that the workspace server sent; then the JSON is not validated again.
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
    """The response in `data[start:end]` for a session client: without `resultType` and server info.

    Returns:
        None if the response has to be parsed and converted.
    """
    begin = RESULT_BEGIN % identity
    if not (data.startswith(begin, start, end) and data.endswith(RESULT_END, start, end)):
        return None
    inside, behind = start + len(begin), end - len(RESULT_END)
    if trim is None:
        trim = result_trim.compute_trim(data, inside - 1, behind + 1)
        if trim is None:
            return None
    first, last = inside + trim.first, behind - trim.last
    return None if first > last else b"".join((begin, data[first:last], RESULT_END))
