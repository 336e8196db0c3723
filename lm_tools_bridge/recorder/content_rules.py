"""Decides for which projects the contents of calls are recorded, and for how long.

The rules are rows of the database. `lmtb record` writes them, whether or not a manager runs; a running
manager reads them within a second.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

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
        known = self._ends
        self._ends = {}
        projects = []
        for rule in rules:
            if rule.until is not None:
                length = (rule.until - rule.made) / 1000
                left = min(length, rule.until / 1000 - wall)
                end = self._ends[rule] = min(known.get(rule, now + left), now + left)
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
