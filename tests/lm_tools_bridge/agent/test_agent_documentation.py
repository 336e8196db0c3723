"""The page about the agent says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lm_tools_bridge.agent.agent_settings import FIELDS, default
from lm_tools_bridge.agent.command_line.arguments import TURN_EXITS
from lm_tools_bridge.agent.conversation.turn import Ending
from lm_tools_bridge.agent.local_tools.source import TOOLS
from lm_tools_bridge.agent.slash_commands.command_table import COMMANDS
from lm_tools_bridge.agent.slash_commands.commands import shown
from lm_tools_bridge.code_intelligence.clangd.definitions import tools_of
from lm_tools_bridge.code_intelligence.settings import ClangdSettings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "agent.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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


def tool_names() -> set[str]:
    """Every tool of the program: built in, the manager's, the agent's, and those of language servers."""
    folders = (ROOT / "workspace_server" / "sources", ROOT / "lm_tools_bridge")
    sources = (source for folder in folders for source in folder.rglob("*.py"))
    named = (re.findall(r'"(lm_\w+)"', source.read_text("utf-8")) for source in sources)
    clangd = tools_of(ClangdSettings())
    return {tool.name for tool in (*TOOLS, *clangd)} | {name for names in named for name in names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_tool_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    shown = re.findall(r"\b((?:lm|os_assistant)_\w*[A-Za-z])\b(?![…*])", text)
    shown += re.findall(r"│ Action: +(\S+)", text)
    assert set(shown) - {"lm_tools_bridge"} <= tool_names()  # the name of the package


def test_every_outcome_has_its_exit_code() -> None:
    told = {int(row[0]): row[1] for row in rows("exit code")}
    assert all(f"`{ending.value}`" in told[TURN_EXITS[ending]] for ending in Ending)
