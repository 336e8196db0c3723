"""Turns ended calls into rows and inserts them, hundreds with one statement.

So SQLite takes and releases Python's lock once for hundreds of rows: the event loop goes on meanwhile.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from manager.recorder.ended_call import CallDetails, CallLabel, CallOrigin, EndedCall
from manager.recorder.tables import CALL_COLUMNS, LABEL_COLUMNS
from protocol import jsonrpc

MAX_TEXT: Final = 200
"""Longest name in characters that is stored; a longer one is cut."""
_COLUMNS: Final = len(CALL_COLUMNS) + 1
_AT_ONCE: Final = 250
"""Rows of one statement."""
_INSERT: Final = f"INSERT INTO calls(id,{','.join(CALL_COLUMNS)}) VALUES"
_ROW: Final = f"({','.join('?' * _COLUMNS)})"
_INSERT_LABEL: Final = (
    f"INSERT INTO labels({','.join(LABEL_COLUMNS)}) VALUES({','.join('?' * len(LABEL_COLUMNS))})"
)
_SAME_LABEL: Final = f"SELECT id FROM labels WHERE {' AND '.join(f'{name} IS ?' for name in LABEL_COLUMNS)}"  # noqa: S608
_TRACE: Final = re.compile(r"\b[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\b")


class Labels:
    """The ids of labels in the database, remembered for the labels that were used."""

    MOST: Final = 4096

    def __init__(self) -> None:
        self._ids: dict[tuple[CallLabel, str], int] = {}

    def forget(self) -> None:
        """Forget all ids: another database is open, or a transaction was rolled back."""
        self._ids.clear()

    def id_of(self, database: sqlite3.Connection, label: CallLabel, source: str) -> int:
        """The id of a label, which is inserted if it is new. `source` replaces an unknown source."""
        key = (label, source)
        found = self._ids.get(key)
        if found is None:
            if len(self._ids) >= self.MOST:
                self._ids.clear()
            found = self._ids[key] = _label_id(database, label, source)
        return found


def insert(
    database: sqlite3.Connection, labels: Labels, calls: Sequence[EndedCall], wall: float, now: float
) -> int:
    """Insert calls, within a transaction.

    Args:
        wall, now: the same moment as seconds since 1970 and as monotonic seconds.

    Returns:
        The id of the first; the others follow.
    """
    last: int = database.execute("SELECT coalesce(max(id),0) FROM calls").fetchone()[0]
    offset = wall - now
    values = []
    for number, call in enumerate(calls, last + 1):
        details = call[6]
        label = labels.id_of(database, call[0].label, "" if details is None else details.source)
        values.append((number, label, *_values(call, offset)))
    for start in range(0, len(values), _AT_ONCE):
        rows = values[start : start + _AT_ONCE]
        statement = f"{_INSERT}{','.join([_ROW] * len(rows))}"
        database.execute(statement, tuple(chain.from_iterable(rows)))
    return last + 1


def session_digest(session: str) -> str:
    """What is stored of a session id: enough to tell sessions apart, too little to use one."""
    return hashlib.sha256(session.encode()).hexdigest()[:12]


_digest: Final = lru_cache(maxsize=1024)(session_digest)


def _values(call: EndedCall, offset: float) -> tuple[Any, ...]:
    """The values of `CALL_COLUMNS` after the label."""
    origin, sent_at, answered_at, ended_at, outcome, received, details = call
    took = ended_at - origin.begun
    server = None if sent_at is None or answered_at is None else answered_at - sent_at
    waited = 0.0 if details is None else details.queue_s + details.start_s
    own = None if server is None else took - server - waited
    return (
        round((origin.begun + offset) * 1000),
        _microseconds(took),
        _microseconds(own),
        _microseconds(server),
        *_of_details(origin, details)[:4],
        origin.sent,
        received,
        *_of_details(origin, details)[4:],
        None if outcome == "ok" else outcome,
        None if details is None else details.code,
        None if origin.session is None else _digest(origin.session),
        _trace(origin.trace) if origin.trace else None,
    )


def _of_details(origin: CallOrigin, details: CallDetails | None) -> tuple[int | None, ...]:
    """source, queue, start, asked, retries."""
    asked = _microseconds(origin.asked_s or None)
    if details is None:
        return None, None, None, asked, None
    return (
        None if details.source_ms is None else round(details.source_ms * 1000),
        _microseconds(details.queue_s or None),
        _microseconds(details.start_s or None),
        asked,
        details.retries or None,
    )


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(0, round(seconds * 1_000_000))


def _trace(text: str) -> str | None:
    found = _TRACE.search(text)
    return None if found is None else found[0]


def _label_id(database: sqlite3.Connection, label: CallLabel, source: str) -> int:
    name, version = client_words(label.client)
    values = (
        name,
        version,
        label.era,
        label.revision[:MAX_TEXT],
        label.workspace[:MAX_TEXT] or None,
        label.method[:MAX_TEXT],
        _text(label.tool),
        _text(source or label.source),
        label.decided_by,
    )
    found = database.execute(_SAME_LABEL, values).fetchone()
    if found is not None:
        return int(found[0])
    number = database.execute(_INSERT_LABEL, values).lastrowid
    assert number is not None  # noqa: S101  narrows the type: a row was inserted
    return number


def client_words(info: bytes) -> tuple[str | None, str | None]:
    """Name and version in a `clientInfo`."""
    members = jsonrpc.members_of(info) if info else {}
    words = (jsonrpc.text_of(members[key]) if key in members else None for key in ("name", "version"))
    name, version = (_text(word) for word in words)
    return name, version


def _text(text: str | None) -> str | None:
    """A text that SQLite can store."""
    return text.encode("utf-8", "replace").decode()[:MAX_TEXT] if text else None
