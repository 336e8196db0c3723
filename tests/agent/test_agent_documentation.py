"""The page about the agent says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from agent.command_line.one_turn import CODES
from agent.outcomes import Ending
from agent.settings.settings import FIELDS, default
from agent.slash_commands.command_table import COMMANDS
from agent.slash_commands.setting_commands import shown

PAGE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text("utf-8")


def rows(first: str) -> list[list[str]]:
    """The rows of the table whose first head is this."""
    table = PAGE.partition(f"\n| {first} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.split("\n")[2:]]


def test_every_setting_is_listed_with_its_default() -> None:
    assert {row[0].strip("`"): row[1].strip("`") for row in rows("setting")} == {
        name: shown(default(name)) for name in FIELDS
    }


def test_every_command_is_listed_with_its_argument() -> None:
    listed = [row[0].strip("`").replace("\\|", "|") for row in rows("command")]
    assert set(listed) == {command.usage for command in COMMANDS}


def test_every_outcome_has_its_exit_code() -> None:
    told = {int(row[0]): row[1] for row in rows("exit code")}
    assert all(f"`{ending.value}`" in told[CODES[ending]] for ending in Ending)
