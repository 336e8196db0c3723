"""What the agent draws on a terminal: boxes, colours, wide characters, and nothing that a tool wants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import PROMPT, agent_desk, command, prompts
from support.processes.terminals.screen_session import ScreenSession
from support.servers.models.formats.steps import call, say

pytestmark = [pytest.mark.timeout(180), pytest.mark.terminals]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


def test_hostile_output_of_a_tool_cannot_act_on_the_terminal(manager: ManagerProcess, tmp_path: Path) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\x1b[8mhidden\x9b31m\u202etxt.exe"
    turns = (call("lm_readFile", {"filePath": "evil.txt"}), say("\x1b[3J\x1b]52;c;AAAA\x07 seen"))
    with agent_desk(manager, tmp_path, *turns) as desk:
        (desk.project / "evil.txt").write_text(hostile)
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("look\r")
            terminal.sees("seen")
            prompts(terminal)
            printed = terminal.printed
        for sequence in (b"\x1b[3J", b"\x1b]", b"\x1b[8m", b"\x07", "\u202e".encode(), "\x9b".encode()):
            assert sequence not in printed, sequence


def test_arguments_cannot_redraw_the_box_that_asks(manager: ManagerProcess, tmp_path: Path) -> None:
    evil = call("os_assistant_run_shell_command", {"command": "echo \x1b[1A\x1b[2K harmless\nrm -rf \u202ex"})
    with agent_desk(manager, tmp_path, evil, say("no")) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("go\r")
        shown = terminal.sees("Execute? (y/[n]):")
        assert "rm -rf" in shown
        assert "\\u001b[1A" in shown or "\\x1b[1A" in shown
        terminal.press("\r")
        terminal.sees("│ no")


def test_a_terminal_that_is_resized_keeps_its_boxes(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (say("word " * 40), say("short " * 30))
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("a\r")
        terminal.see(lambda shown: "word" in shown and "╯" in shown, "the reply")
        terminal.resize(50, 20)
        prompts(terminal)
        terminal.press("b\r")
        terminal.see(lambda shown: "short" in shown and shown.rstrip().endswith(PROMPT), "the reply")
        tops = [line for line in terminal.lines if line.startswith("╭─ ASSISTANT")]
        assert len(tops[-1]) == 50


def borders(terminal: ScreenSession, title: str) -> int:
    """The rows of the last box with this title, each with its right border in the same column."""
    buffer = terminal.screen.buffer
    top = max(at for at, line in enumerate(terminal.lines) if line.startswith(f"╭─ {title} "))
    right = next(column for column in range(terminal.screen.columns) if buffer[top][column].data == "╮")
    row = top + 1
    while buffer[row][0].data == "│":
        assert buffer[row][right].data == "│", terminal.lines[row]
        row += 1
    assert (buffer[row][0].data, buffer[row][right].data) == ("╰", "╯")
    return row - top - 1


def test_wide_characters_are_typed_and_keep_boxes_straight(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (command("echo 日本語 ñ"), say("日本語のテキスト " * 12))
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent(rows=40) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("日本語は?\r")
        terminal.sees("Execute?")
        assert borders(terminal, "GUARD - ACTION PENDING") == 2
        terminal.press("y\r")
        terminal.see(lambda shown: "ASSISTANT" in shown and shown.rstrip().endswith(PROMPT), "the reply")
        assert borders(terminal, "SYSTEM OUTPUT LOG") == 1
        assert borders(terminal, "ASSISTANT") >= 2
        assert desk.model.requests[0].body["messages"][-1]["content"] == "日本語は?"


def colour_of(terminal: ScreenSession, title: str) -> str:
    row = max(at for at, line in enumerate(terminal.lines) if line.startswith(f"╭─ {title} "))
    return str(terminal.screen.buffer[row][0].fg)


def test_boxes_have_the_colours_of_their_kinds(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (command("true"), say("Done so far."))
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent(rows=40) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("go\r")
        terminal.sees("Execute?")
        assert colour_of(terminal, "GUARD - ACTION PENDING") == "brown"  # pyte's name of yellow
        terminal.press("y\r")
        terminal.see(lambda shown: "ASSISTANT" in shown and shown.rstrip().endswith(PROMPT), "the reply")
        assert colour_of(terminal, "SYSTEM OUTPUT LOG") == "green"
        assert (
            colour_of(terminal, "ASSISTANT") == "white"
        )  # fails today: reply_box.py:58 draws without colour
