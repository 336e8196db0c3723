"""Stores arguments and results of calls, without their secrets. Used only while contents are recorded."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from lm_tools_bridge.protocol import jsonrpc, sse
from lm_tools_bridge.text.redactor import Redactor
from manager.call_observer import MAX_CONTENTS, EndedCall


def insert_contents(
    database: sqlite3.Connection,
    first_id: int,
    calls: Sequence[EndedCall],
    at_ms: int,
    keys: Collection[str] = (),
) -> int:
    """Insert the contents of those calls that have some.

    Args:
        first_id: the id of the first call; the others follow.
        at_ms: milliseconds since 1970.
        keys: names of members whose values are hidden.

    Returns:
        How many rows were inserted.
    """
    count = 0
    for number, call in enumerate(calls, first_id):
        origin, details = call.origin, call.details
        if details is None or origin.arguments is None:
            continue
        redactor = Redactor(keys)
        arguments = redactor.json_text(origin.arguments[:MAX_CONTENTS].decode("utf-8", "replace"))
        is_cut = len(origin.arguments) > MAX_CONTENTS
        result = None
        if details is not None and details.result is not None:
            is_cut = is_cut or details.is_cut
            result = redactor.json_text(_message(bytes(details.result)).decode("utf-8", "replace"))
        texts = (None if one is None else one.encode("utf-8", "replace") for one in (arguments, result))
        row = (number, at_ms, *texts, redactor.hidden, int(is_cut))
        database.execute("INSERT OR REPLACE INTO contents VALUES(?,?,?,?,?,?)", row)
        count += 1
    return count


def _message(answer: bytes) -> bytes:
    """The result (or error) in an answer, which is JSON or an event stream."""
    if not answer.lstrip().startswith(b"{"):
        events = sse.Decoder(len(answer) + 1).feed(answer)
        answer = next((event.data for event in reversed(events) if b'"jsonrpc"' in event.data), answer)
    members = jsonrpc.members_of(answer)
    for name in ("result", "error"):
        if name in members:
            body = jsonrpc.bytes_of(members[name])
            return body if name == "result" else b'{"error":%b}' % body
    return answer
