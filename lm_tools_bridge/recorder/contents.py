"""Arguments and results of calls: for which projects they are recorded, for how long, and without secrets.

The rules are rows of the database. `lmtb record` writes them, whether or not a manager runs; a running
manager reads them within a second.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from lm_tools_bridge.protocol import jsonrpc, sse
from lm_tools_bridge.text.redaction import Redactor
from manager.call_observer import MAX_CONTENTS, EndedCall

ALL: Final = ""
"""Stands for all projects."""


class ContentRule(NamedTuple):
    """Contents of a project's calls are recorded. Times are milliseconds since 1970.

    Attributes:
        project: id of a workspace, or `ALL`.
        until: None for no end.
    """

    project: str
    made: int
    until: int | None


class ActiveProjects(frozenset[str]):
    """The projects whose contents are recorded now; an empty one is false.

    It is replaced as a whole, never changed, so any thread may read it. Every call asks whether it is empty,
    which a set answers without a call of Python.
    """

    __slots__ = ()

    def __contains__(self, project: object) -> bool:
        return super().__contains__(project) or super().__contains__(ALL)


class Deadlines:
    """Ends rules on time, also if the clock is set back: by monotonic time since a rule was first seen."""

    def __init__(self) -> None:
        self._ends: dict[ContentRule, float] = {}

    def active(self, rules: Iterable[ContentRule], wall: float, now: float) -> ActiveProjects:
        """The projects whose rule has not ended.

        Args:
            wall, now: the same moment as seconds since 1970 and as monotonic seconds.
        """
        former_ends = self._ends
        self._ends = {}
        projects = []
        for rule in rules:
            if rule.until is not None:
                length = (rule.until - rule.made) / 1000
                left = min(length, rule.until / 1000 - wall)
                end = self._ends[rule] = min(former_ends.get(rule, now + left), now + left)
                if end <= now:
                    continue
            projects.append(rule.project)
        return ActiveProjects(projects)


def read_rules(database: sqlite3.Connection) -> list[ContentRule]:
    """All rules, also those that have ended."""
    return [ContentRule(*row) for row in database.execute("SELECT project,made,until FROM content_rules")]


def set_rule(database: sqlite3.Connection, rule: ContentRule) -> None:
    """Begin to record the contents of a project, or change the end."""
    database.execute("INSERT OR REPLACE INTO content_rules VALUES(?,?,?)", rule)


def drop_rules(database: sqlite3.Connection, project: str | None) -> int:
    """Stop recording the contents of a project, or of all projects (None). Returns the rules removed."""
    if project is None:
        return database.execute("DELETE FROM content_rules").rowcount
    return database.execute("DELETE FROM content_rules WHERE project=?", (project,)).rowcount


# -- the contents ------------------------------------------------------------------------------------------


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
        texts = (
            None if content is None else content.encode("utf-8", "replace") for content in (arguments, result)
        )
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
