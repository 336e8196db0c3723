"""Turns ended calls into rows and inserts them, many with one statement.

SQLite takes and releases Python's lock once for a statement, so the event loop goes on while it inserts. The
rows of one statement are few enough that the loop does not wait long while Python makes them. Most calls are
plain: nothing of them is unusual, and their rows have few columns. A statement of their own lets a call take
3.7 us instead of 6.5 us.

When calls are too many for a row each, failures, slow calls and calls with details keep theirs first. The
others are counted by label, that is by client, project and tool: the first of each label since the last batch
gets a row, which says how many follow.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.internal.call_reports import CallTiming
from lm_tools_bridge.recorder.database import (
    ANY,
    BLOCK,
    CALL_COLUMNS,
    FAILED,
    LABEL_COLUMNS,
    PLAIN_COLUMNS,
    SLOW,
    SLOW_US,
)
from lm_tools_bridge.token_bucket import TokenBucket
from manager.call_observer import CallDetails, CallLabel, EndedCall, is_failure

WHOLE_PER_S: Final = 250.0
"""Calls a second that may have a row each for any length of time."""
BURST: Final = 1000.0
"""Calls that may have a row each at once."""
UNUSUAL: Final = 125
"""Failures, slow calls and calls with details that always may have a row in one batch."""
_SLOW_S: Final = SLOW_US / 1e6  # what searches for slow calls find


def allowance(rate: float, now: float) -> TokenBucket:
    """How many calls may have a row each: `rate` of them a second, and a burst at once."""
    return TokenBucket(rate, max(BURST, rate), now)


class Chosen(NamedTuple):
    """The calls that get rows.

    Attributes:
        calls: these calls, in order.
        more: for the index of a call, how many others like it have no row.
    """

    calls: Sequence[EndedCall]
    more: Mapping[int, int]


def choose(batch: Sequence[EndedCall], room: float, unusual: int = UNUSUAL) -> Chosen:
    """Choose among the calls since the last batch.

    Args:
        room: how many may have a row each.
        unusual: how many failures, slow calls and calls with details may have one in addition.
    """
    if len(batch) <= room:
        return Chosen(batch, {})
    first = int(room)
    calls, left = list(batch[:first]), unusual
    samples: dict[object, int] = {}
    counts: dict[object, int] = {}
    for call in batch[first:]:
        key: object = call.origin.label
        if call.outcome != "ok" or call.details is not None or call.ended_at - call.origin.begun >= _SLOW_S:
            if left > 0:
                left -= 1
                calls.append(call)
                continue
            key = (key, call.outcome)
        if key in counts:
            counts[key] += 1
        else:
            counts[key], samples[key] = 0, len(calls)
            calls.append(call)
    return Chosen(calls, {samples[key]: count for key, count in counts.items() if count})


MAX_TEXT: Final = 200
"""Longest name in characters that is stored; a longer one is cut."""
_AT_ONCE: Final = 128
"""Rows that are made before they are inserted."""
_SIZES: Final = (_AT_ONCE, 16, 4, 1)
"""Rows of one statement: few different statements, so that SQLite parses each once."""
_PLAIN: Final = ("id", *PLAIN_COLUMNS)
_LABEL_AT: Final = _PLAIN.index("label")
_WHOLE: Final = ("id", *CALL_COLUMNS)
_INSERT_LABEL: Final = (
    f"INSERT INTO labels({','.join(LABEL_COLUMNS)}) VALUES({','.join('?' * len(LABEL_COLUMNS))})"
)
_SAME_LABEL: Final = f"SELECT id FROM labels WHERE {' AND '.join(f'{name} IS ?' for name in LABEL_COLUMNS)}"
_TRACE: Final = re.compile(r"\b[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\b")
_NO_DETAILS: Final = CallDetails()
_NO_TIMING: Final = CallTiming("", 0, 0)
SourcesOf = Callable[[str], Iterable[str]]
"""Id of a workspace -> ids of its sources as its server reported them last, such as `stdio:git`."""
_SERVERS: Final = ("stdio", "remote")


class Labels:
    """What the database knows of labels: their ids, and the blocks that are noted for them.

    Only what was used lately is remembered.
    """

    MOST: Final = 4096
    """A label is a client, a project and a tool, some hundred bytes. What is forgotten costs a query."""

    def __init__(self, sources: SourcesOf = lambda _: ()) -> None:
        """`sources` tells the sources of a workspace, where a label does not name one."""
        self._sources = sources
        self._ids: dict[tuple[CallLabel, str], int] = {}
        self._noted: set[tuple[int, int, int]] = set()
        self._last = 0

    def forget(self) -> None:
        """Forget all: another database is open, or a transaction was rolled back."""
        self._ids.clear()
        self._noted.clear()

    def id_of(self, database: sqlite3.Connection, label: CallLabel, source: str) -> int:
        """The id of a label, which is inserted if it is new. `source` replaces an unknown source."""
        if not source and not label.source and label.tool and label.workspace:
            source = source_of(label.tool, self._sources(label.workspace))
        key = (label, source)
        label_id = self._ids.get(key)
        if label_id is None:
            if len(self._ids) >= self.MOST:
                self._ids.clear()
            label_id = self._ids[key] = _label_id(database, label, source)
        return label_id

    def begin(self, database: sqlite3.Connection) -> int:
        """The id of the last call. If it is another than ours, calls and blocks were removed meanwhile."""
        last: int = database.execute("SELECT coalesce(max(id),0) FROM calls").fetchone()[0]
        if last != self._last:
            self.forget()
        return last

    def end(self, last: int) -> None:
        """Note the id of the last call that was inserted."""
        self._last = last

    def note(self, database: sqlite3.Connection, blocks: set[tuple[int, int, int]]) -> None:
        """Store which blocks have calls of which label: (kind, label, block)."""
        new = blocks - self._noted
        if len(self._noted) >= self.MOST:
            self._noted.clear()
        if new:
            database.executemany("INSERT OR IGNORE INTO blocks VALUES(?,?,?)", sorted(new))
            self._noted |= new


def insert(
    database: sqlite3.Connection,
    labels: Labels,
    choice: Chosen,
    wall: float,
    now: float,
) -> int:
    """Insert calls, within a transaction.

    Args:
        wall, now: the same moment as seconds since 1970 and as monotonic seconds.

    Returns:
        The id of the first; the others follow.
    """
    last = labels.begin(database)
    rows = _Rows(database, labels, wall - now)
    calls, more = choice.calls, {last + 1 + index: count for index, count in choice.more.items()}
    for start in range(0, len(calls), _AT_ONCE):
        rows.add(calls[start : start + _AT_ONCE], last + 1 + start, more)
    rows.note()
    labels.end(last + len(calls))
    return last + 1


class _Rows:
    """Makes and inserts the rows of one batch."""

    def __init__(self, database: sqlite3.Connection, labels: Labels, offset: float) -> None:
        self._database = database
        self._labels = labels
        self._offset = offset
        self._label_ids: dict[tuple[CallLabel, str], int] = {}
        """Ids of the batch's labels, by the label and the source that the server names."""
        self._blocks: set[tuple[int, int, int]] = set()

    def add(self, calls: Sequence[EndedCall], first: int, more: Mapping[int, int]) -> None:
        """Insert calls, the first of which gets the id `first`. `more` is by id."""
        plain: list[Any] = []
        whole: list[Any] = []
        label_ids, offset = self._label_ids, self._offset
        for number, call in enumerate(calls, first):
            origin, sent_at, answered_at = call.origin, call.sent_at, call.answered_at
            timing_text = call.timing
            source, source_us, approval_us, _ = timing = (
                timing_text and CallTiming.from_value(timing_text)
            ) or _NO_TIMING
            begun, label = origin.begun, label_ids.get((origin.label, source))
            took = int((call.ended_at - begun) * 1e6 + 0.5)
            if (
                label is None
                or call.details is not None
                or call.outcome != "ok"
                or sent_at is None
                or answered_at is None
                or not 0 <= took < SLOW_US
                or origin.trace
                or origin.asked_s
                or approval_us
                or (more and number in more)
            ):
                whole += (number, *self._whole(call, timing, number, more.get(number)))
                continue
            session = origin.session
            plain += (
                number,
                label,
                int((begun + offset) * 1e3 + 0.5),
                took,
                int((answered_at - sent_at) * 1e6 + 0.5),
                origin.sent,
                call.received,
                None if session is None else _digest(session),
                origin.made_trace,
                source_us if source else None,
            )
        blocks = {first // BLOCK, (first + len(calls) - 1) // BLOCK}
        used = set(plain[_LABEL_AT :: len(_PLAIN)])
        self._blocks.update((ANY, label, block) for label in used for block in blocks)
        _execute(self._database, _PLAIN, plain)
        _execute(self._database, _WHOLE, whole)

    def note(self) -> None:
        """Store in which blocks the labels of the batch occur."""
        self._labels.note(self._database, self._blocks)

    def _whole(self, call: EndedCall, timing: CallTiming, number: int, more: int | None) -> tuple[Any, ...]:
        """The values of `CALL_COLUMNS`."""
        origin, sent_at, answered_at, outcome = call.origin, call.sent_at, call.answered_at, call.outcome
        details = call.details or _NO_DETAILS
        label = self._labels.id_of(self._database, origin.label, timing.source)
        self._label_ids[origin.label, timing.source] = label
        took = _microseconds(call.ended_at - origin.begun) or 0
        self._note(label, number, is_failure(outcome), took >= SLOW_US)
        return (
            label,
            round((origin.begun + self._offset) * 1000),
            took,
            None if sent_at is None or answered_at is None else _microseconds(answered_at - sent_at),
            origin.sent,
            call.received,
            None if origin.session is None else _digest(origin.session),
            origin.made_trace or None,
            timing.source_us if timing.source else None,
            None if outcome == "ok" else outcome,
            details.code,
            _microseconds(details.queue_s or None),
            _microseconds(details.start_s or None),
            _microseconds(origin.asked_s or None),
            details.retries or None,
            more,
            _trace(origin.trace) if origin.trace else None,
            timing.approval_us or None,
        )

    def _note(self, label: int, number: int, failed: bool, slow: bool) -> None:
        block = number // BLOCK
        self._blocks.add((ANY, label, block))
        if failed:
            self._blocks.add((FAILED, label, block))
        if slow:
            self._blocks.add((SLOW, label, block))


def _execute(database: sqlite3.Connection, columns: tuple[str, ...], values: list[Any]) -> None:
    """Insert rows, whose values follow each other."""
    start, width = 0, len(columns)
    for size in _SIZES:
        step = size * width
        while len(values) - start >= step:
            database.execute(_statement(columns, size), values[start : start + step])
            start += step


@cache
def _statement(columns: tuple[str, ...], rows: int) -> str:
    row = f"({','.join('?' * len(columns))})"
    return f"INSERT INTO calls({','.join(columns)}) VALUES{','.join([row] * rows)}"


def session_digest(session: str) -> str:
    """What is stored of a session id: enough to tell sessions apart, too little to use one."""
    return hashlib.sha256(session.encode()).hexdigest()[:12]


_digest: Final = lru_cache(maxsize=1024)(session_digest)


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(0, round(seconds * 1_000_000))


def _trace(text: str) -> str | None:
    match = _TRACE.search(text)
    return None if match is None else match[0]


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
    row = database.execute(_SAME_LABEL, values).fetchone()
    if row is not None:
        return int(row[0])
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


def source_of(tool: str, sources: Iterable[str]) -> str:
    """The id of the source whose tool this is, as names of tools begin with the namespace of their server.

    Empty if the name does not tell.
    Tools of this program, of scripts and of servers without a namespace have no beginning that tells.
    """
    matches = [source for source in sources if _begins(tool, *source.partition(":")[::2])]
    return max(matches, key=len, default="")


def _begins(tool: str, kind: str, namespace: str) -> bool:
    return kind in _SERVERS and bool(namespace) and tool.startswith(f"{namespace}__")
