"""The agent at a real terminal, with a real manager and workspace server and a scripted model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import AgentDesk, agent_desk, prompts
from support.servers.models.formats.steps import call, say

pytestmark = [pytest.mark.timeout(180), pytest.mark.terminals]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


@pytest.mark.always
def test_a_model_reads_a_file_and_its_reply_is_rendered(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (
        call("lm_readFile", {"filePath": "note.txt"}),
        say("It says **good", " morning** 日本.\n\n", "- one\n"),
    )
    with agent_desk(manager, tmp_path, *turns) as desk:
        (desk.project / "note.txt").write_text("good morning\n")
        with desk.agent() as terminal:
            terminal.sees("MODEL: tiny | HIL: ACTIVE")
            terminal.press("what does note.txt say?\r")
            shown = terminal.sees("• one")
            assert "╭─ SYSTEM OUTPUT LOG ─" in shown
            assert "│ It says good morning" in shown
            assert "**" not in shown
            prompts(terminal)
            terminal.press("/quit\r")
            assert terminal.ended() == 0
        assert "good morning" in desk.model.requests[1].results[0]
        assert [line["decision"] for line in desk.audit()][-1:] == ["AUTO"]


def without_model(desk: AgentDesk, *names: str) -> None:
    """The settings name no model, and the server has these."""
    desk.model.listed = list(names)
    text = desk.config_file.read_text()
    desk.config_file.write_text(text.replace('ollama = "tiny"', ""))


def test_the_only_model_is_used_where_none_is_named(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("Here.")) as desk:
        without_model(desk, "qwen3:8b")
        with desk.agent() as terminal:
            terminal.sees("MODEL: none (ollama)")
            terminal.press("hello\r")
            terminal.sees("Here.")
            terminal.sees("ollama: uses qwen3:8b, its only model")
            terminal.sees("MODEL: qwen3:8b")
        assert desk.model.requests[0].body["model"] == "qwen3:8b"


def test_one_of_several_models_is_picked_and_saved(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("Here.")) as desk:
        without_model(desk, "small", "large")
        with desk.agent() as terminal:
            terminal.sees("MODEL: none (ollama)")
            terminal.press("hello\r")
            terminal.sees("2. large")
            terminal.sees("Model (number or name):")
            terminal.press("2\r")
            terminal.sees("Use it in later sessions too?")
            terminal.press("y\r")
            terminal.sees("model.ollama = large, saved")
            terminal.sees("Here.")
        assert desk.model.requests[0].body["model"] == "large"
        assert 'ollama = "large"' in desk.config_file.read_text()


def test_a_session_without_a_model_says_how_to_choose_one(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk, desk.agent("--provider", "mistral", columns=62) as terminal:
        shown = prompts(terminal)
        assert "no model is chosen yet: enter /model NAME" in shown
        assert "asks mistral for its models" in " ".join(shown.split())
        terminal.press("/model small\r")
        terminal.sees("MODEL: small")


def test_a_paste_of_a_mebibyte_reaches_the_model_whole(manager: ManagerProcess, tmp_path: Path) -> None:
    text = "".join(f"line {number} of the pasted text\n" for number in range(40_000))[: 1024 * 1024]
    with agent_desk(manager, tmp_path, say("A long text."), settings="context_tokens = 2000000") as desk:
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            prompts(terminal)
            terminal.paste(text)
            terminal.sees("[paste 1: 1,048,576 characters]")
            terminal.press(" what is it?\r")
            terminal.sees("A long text.")
        [request] = desk.model.requests
        assert request.body["messages"][-1]["content"] == f"{text} what is it?"


def test_a_paste_of_some_lines_is_one_input(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("Two lines.")) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        prompts(terminal)
        terminal.paste("one\r\ntwo")
        terminal.see(lambda shown: "two" in shown, "the paste")
        terminal.press("\r")
        terminal.sees("Two lines.")
        assert desk.model.requests[0].body["messages"][-1]["content"] == "one\ntwo"


def test_tools_are_called_without_a_model(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, settings="human_in_loop = true") as desk:
        (desk.project / "note.txt").write_text("by hand\n")
        with desk.agent("--provider", "manual") as terminal:
            terminal.sees("MODEL: manual | HIL: ACTIVE")
            terminal.press("\r")
            terminal.see(lambda shown: "1. " in shown and "lm_readFile" in shown, "the menu")
            terminal.press("lm_readFile\r")
            terminal.sees("Arguments of lm_readFile:")
            terminal.press("note.txt\r")
            terminal.sees("by hand")
            prompts(terminal)
            terminal.press("0\r")
            prompts(terminal)
        assert desk.model.requests == []


def test_commands_show_and_change_the_session(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk, desk.agent(rows=40) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("/hil\r")
        terminal.sees("HIL: OFF")
        terminal.press("/mode\r")
        terminal.sees("gemini: no model is chosen")
        terminal.press("/mode\r")
        terminal.sees("MODEL: manual")
        terminal.press("/mode ollama\r")
        terminal.sees("ollama: tiny")
        terminal.press("/hlep\r")
        terminal.sees("did you mean /help?")
        terminal.press("/config loop_limit 7\r")
        terminal.sees("loop_limit = 7, saved")
        terminal.press("/toggle os_assistant\r")
        terminal.sees("os_assistant is off")
        terminal.press("/servers\r")
        terminal.see(lambda shown: "DISABLED" in shown and "manager" in shown, "the sources")
        terminal.press("/config sudo askpass\r")
        terminal.sees("it counts from the next session on")
        assert "loop_limit = 7" in desk.config_file.read_text()
        assert desk.model.requests == []


def test_use_and_context_are_shown_and_a_summary_is_made(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (
        call("calculator", {"expression": "6 * 7"}),
        say("Forty-two."),
        say("The person asked for a product."),
        say("Still here."),
    )
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent(rows=60) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("/context\r")
        terminal.sees("nothing was sent to a model yet")
        terminal.press("/compact\r")
        terminal.sees("there is nothing to summarise")
        terminal.press("6 * 7?\r")
        terminal.sees("Forty-two.")
        prompts(terminal)
        terminal.press("/context\r")
        terminal.see(lambda shown: "system" in shown and "history" in shown, "what the context holds")
        terminal.press("/tools\r")
        shown = terminal.sees("LAST USE")
        [row] = [line for line in shown.splitlines() if line.lstrip().startswith("calculator ")]
        assert re.search(r"ACTIVE .* 1 .*\d\d:\d\d:\d\d +ok$", row.rstrip()), row
        terminal.press("/compact\r")
        terminal.sees("older turns are summarised")
        prompts(terminal)
        terminal.press("/model other\r")
        terminal.sees("ollama: other")
        terminal.press("go on\r")
        terminal.sees("Still here.")
        last = desk.model.requests[-1].body
        assert last["model"] == "other"
        assert "asked for a product" in str(last)
        assert "Forty-two" not in str(last)


def test_a_tool_that_is_switched_off_cannot_be_called(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (call("calculator", {"expression": "1 + 1"}), say("It is off."))
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("/tools calculator off\r")
        terminal.sees("calculator is off")
        terminal.press("calculate\r")
        terminal.sees("It is off.")
        assert "Tool calculator is disabled" in desk.model.requests[1].results[0]
        assert "calculator" not in desk.model.requests[0].tools
        assert "calculator" not in manager.lmtb("tools", cwd=desk.project).stdout
        terminal.press("/tools calculator on\r")
        terminal.sees("calculator is on")


def test_the_configuration_is_asked_for_and_saved(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk:
        with desk.agent("config") as terminal:
            terminal.sees("Provider [ollama]:")
            terminal.press("olama\r")
            terminal.sees("did you mean ollama?")
            terminal.see(lambda shown: shown.rstrip().endswith("Provider [ollama]:"), "the question again")
            terminal.press("\r")
            terminal.sees("Model of ollama [tiny]:")
            terminal.press("qwen3\r")
            terminal.sees("Ask before calls (yes, no) [yes]:")
            terminal.press("no\r")
            terminal.sees("saved in")
            assert terminal.ended() == 0
        text = desk.config_file.read_text()
        assert 'ollama = "qwen3"' in text
        assert "human_in_loop = false" in text


def test_a_conversation_is_forgotten_and_resumed(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (
        say("Hello Ada."),
        call("calculator", {"expression": "6 * 7"}),
        say("Forty-two."),
        say("Ada, of course."),
    )
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent(rows=40) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("I am Ada\r")
        terminal.sees("Hello Ada.")
        prompts(terminal)
        terminal.press("/clear\r")
        terminal.sees("the conversation is forgotten")
        prompts(terminal)
        terminal.press("6 * 7?\r")
        terminal.sees("Forty-two.")
        assert "I am Ada" not in str(desk.model.requests[1].body)
        prompts(terminal)
        terminal.press("/last\r")
        terminal.sees("│ calculator:")
        prompts(terminal)
        terminal.press("/resume\r")
        terminal.sees("Session (Enter: none):")  # what is typed before a question does not answer it
        terminal.press("2\r")
        terminal.sees("goes on with 2 messages")
        terminal.press("who am I?\r")
        terminal.sees("Ada, of course.")
        assert "I am Ada" in str(desk.model.requests[3].body)
        assert "6 * 7?" not in str(desk.model.requests[3].body)


def test_tools_are_listed_and_modes_go_round(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk:
        text = desk.config_file.read_text()
        desk.config_file.write_text(text.replace('ollama = "tiny"', 'ollama = "tiny"\nmistral = "small"'))
        with desk.agent(rows=60) as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("/list\r")
            terminal.see(
                lambda shown: re.search(r"1\. \S+ +2\. \S+ +3\. \S+", shown) is not None, "three columns"
            )
            terminal.press("/list calculator\r")
            terminal.sees("calculator, from manager")
            terminal.sees('"expression"')
            for told in (
                "gemini: no model is chosen",
                "mistral: small",
                "manual mode: enter",
                "ollama: tiny",
            ):
                terminal.press("/mode\r")
                terminal.sees(told)
                prompts(terminal)
        assert desk.model.requests == []
