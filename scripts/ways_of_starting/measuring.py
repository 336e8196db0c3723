"""Runs one cell: an agent with an entry, started in one way; or measures how fast it starts with an entry."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.ways_of_starting.tokens import count
from support.clients.agents import InstalledAgents
from support.clients.ways.conversations import NoAnswer, Reading
from support.clients.ways.outcomes import Outcome, outcome_of, worst
from support.clients.ways.scene import NoSuchEntry, Scene, scene
from support.clients.ways.table import WAYS

EXCERPT = 300
_COLUMNS = re.compile(r" {2,}")
_NUMBER = re.compile(r"[0-9a-f]{5,}|\d{4,}")


@dataclass
class Cell:
    """What came of a cell.

    Attributes:
        cause: why it is not right, with the evidence of the deciding request.
        seen: `lmtb whoami` after each read that was not right.
        first_request_s: seconds from each program's start to its first request to the model.
        tokens: of the first request.
    """

    agent: str
    entry: str
    way: str
    outcome: Outcome
    cause: str = ""
    seen: list[str] = field(default_factory=list)
    first_request_s: list[float] = field(default_factory=list)
    tokens: int | None = None

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return {**asdict(self), "outcome": self.outcome.name}

    @classmethod
    def from_json(cls, members: dict[str, Any]) -> Cell:
        """One that was read from a file."""
        return cls(**{**members, "outcome": Outcome[members["outcome"]]})


async def run_cell(agent: str, entry: str, way: str, installed: InstalledAgents) -> Cell | None:
    """The cell; nothing where the agent has no such entry."""
    with _short_folder() as folder:
        failure = ""
        try:
            async with scene(agent, entry, installed, folder) as here:
                try:
                    await WAYS[way].run(here)
                except NoAnswer as gone:
                    failure = str(gone)
        except NoSuchEntry:
            return None
        return _judge(Cell(agent, entry, way, Outcome.NOT_RUN), here, failure, folder)


@contextmanager
def _short_folder() -> Iterator[Path]:
    """A temporary folder; the paths of sockets in it must stay below 108 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="ways-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judge(cell: Cell, here: Scene, failure: str, folder: Path) -> Cell:
    outcomes = [outcome_of(reading, here.folders) for reading in here.readings]
    cell.outcome = worst([*outcomes, *([Outcome.NOT_RUN] if failure else [])])
    cell.first_request_s = here.first_request_s
    requests = [talk.requests[0] for talk in here.talks if talk.requests]
    if requests:
        cell.tokens = count(json.dumps(requests[0].body, ensure_ascii=False), here.installed.folder / "npm")
    for outcome, reading in zip(outcomes, here.readings, strict=True):
        if outcome > Outcome.RIGHT:
            cell.seen.append(_plain(reading.seen, folder))
        if outcome == cell.outcome:
            cell.cause = _cause(outcome, reading)
    cell.cause = _plain(cell.cause if outcomes and max(outcomes) == cell.outcome else failure, folder)
    return cell


def _cause(outcome: Outcome, reading: Reading) -> str:
    if outcome == Outcome.RIGHT:
        return ""
    deciding = next((line for line in reading.seen.splitlines() if line.startswith("  tools/")), "")
    columns = _COLUMNS.split(deciding.strip())
    evidence = (
        ", ".join([f"decided by {columns[1]}", *columns[3:]]) if len(columns) > 1 else "no request seen"
    )
    if outcome == Outcome.NAMED:
        return f"answer to the first call: {reading.asked.partition('. Next step')[0]}"
    if outcome == Outcome.BY_CALL:
        return f"nothing told the project when tools were listed; the call was {evidence.partition(', ')[0]}"
    return f"{evidence}; answer: {reading.text[:EXCERPT]}" if outcome == Outcome.REFUSED else evidence


def _plain(text: str, folder: Path) -> str:
    """The text without the temporary folder, and without numbers that differ from run to run."""
    return _NUMBER.sub("…", text.replace(str(folder), ""))
