"""Readings are judged, and results become tables. Nothing is run here."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from scripts.ways_of_starting import report
from scripts.ways_of_starting.measuring import Cell
from support.clients.agent_table import AGENTS
from support.clients.ways.conversations import Reading
from support.clients.ways.entries import ENTRIES, entry_of
from support.clients.ways.outcomes import Folder, Outcome, outcome_of, worst

ADDRESS = "http://127.0.0.1:4711/mcp"
A, B, WORKTREE = Path("/p/a"), Path("/p/b"), Path("/p/a/.claude/worktrees/x")
PACKAGE = A / "packages/web"
FOLDERS = (
    Folder(A, A, "text of a"), Folder(B, B, "text of b"), Folder(WORKTREE, WORKTREE, "text of x"),
    Folder(PACKAGE, A, "text of web"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("expected", "was_offered", "text", "outcome"),
    [
        (B, True, "1: text of b", Outcome.RIGHT),
        (B, False, "1: text of b", Outcome.BY_CALL),
        (B, True, "1: text of a", Outcome.WRONG),
        (WORKTREE, True, "1: text of a", Outcome.WRONG),
        (PACKAGE, True, "1: text of a", Outcome.ROOT),
        (B, True, "refused: /p/a or /p/b?", Outcome.REFUSED),
        (B, False, "no such tool", Outcome.NO_TOOLS),
    ],
)
def test_the_file_that_came_tells_which_project_answered(
    expected: Path, was_offered: bool, text: str, outcome: Outcome
) -> None:
    assert outcome_of(Reading(expected, was_offered, text, ""), FOLDERS) == outcome


def test_a_model_that_had_to_name_its_folder_is_told_apart() -> None:
    assert outcome_of(Reading(B, False, "text of b", "", asked="Next step"), FOLDERS) == Outcome.NAMED
    assert outcome_of(Reading(B, False, "text of a", "", asked="Next step"), FOLDERS) == Outcome.WRONG


def test_an_answer_of_another_project_is_the_worst_and_no_answer_is_no_success() -> None:
    assert worst([Outcome.RIGHT, Outcome.WRONG, Outcome.NOT_RUN]) == Outcome.WRONG
    assert worst([]) == Outcome.NOT_RUN


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("kind", [*ENTRIES, "none"])
def test_every_entry_is_in_the_language_of_its_agent_and_leads_to_the_manager(agent: str, kind: str) -> None:
    text = entry_of(agent, kind, ADDRESS)
    if text is None:
        assert kind in ("query", "header", "plugin")
        return
    if agent == "codex":
        tomllib.loads(text)
    else:
        json.loads(text)
    assert ("lmtb" in text or ADDRESS in text) == (kind not in ("none", "plugin"))


@pytest.mark.parametrize(
    ("agent", "entry"),
    [("claude-code", "query"), ("codex", "connect"), ("copilot-cli", "connect"), ("cline", "roots")],
)
def test_the_entry_that_we_write_is_marked(agent: str, entry: str) -> None:
    text = report.ways_text([Cell(agent, kind, "terminal", Outcome.RIGHT) for kind in ("roots", entry)])
    assert f"**{entry}**" in text
    assert "With the entries that `lmtb client add` writes: 1 right." in text or entry == "roots"


def test_a_table_numbers_the_causes_of_what_is_not_right() -> None:
    cells = [
        Cell("codex", "header", "terminal", Outcome.RIGHT),
        Cell("codex", "header", "folder", Outcome.WRONG, "decided by the header"),
        Cell("codex", "roots", "folder", Outcome.BY_CALL, "decided by the folder"),
    ]
    text = report.ways_text(cells)
    assert "| in a terminal, in A | right |  |" in text
    assert "| **WRONG** (1) | right, by `callTool` (2) |" in text
    assert "1. `` decided by the header ``" in text
    assert report.summary(cells) == "1 right, 1 right, by `callTool`, 1 **WRONG**"
