"""The agent at a real terminal, with a real manager and workspace server and a scripted model."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from support.processes.agent_desk import PROMPT, AgentDesk, agent_desk
from support.processes.manager_process import ManagerProcess, running_manager
from support.processes.screen_session import SHOWN_S, ScreenSession
from support.processes.timeouts import within
from support.servers.model_formats.steps import Reply, call, say
from support.servers.model_server import Broken

pytestmark = [pytest.mark.timeout(180), pytest.mark.terminals]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


def command(text: str) -> Reply:
    return call("os_assistant_run_shell_command", {"command": text})


def prompts(terminal: ScreenSession) -> str:
    """Wait for the prompt at the end of the screen."""
    return terminal.see(lambda shown: shown.rstrip().endswith(PROMPT), "a prompt")


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


@pytest.mark.parametrize(("answer", "runs"), [("\r", True), ("n\r", False)])
def test_a_command_runs_only_after_a_yes(
    manager: ManagerProcess, tmp_path: Path, answer: str, runs: bool
) -> None:
    with agent_desk(manager, tmp_path, command("touch made"), say("Done so far.")) as desk:
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("make it\r")
            shown = terminal.sees("Execute? ([y]/n):")
            assert '│ Inputs:  {"command":"touch made"}' in shown.replace('": "', '":"')
            assert not (desk.project / "made").exists()
            terminal.press(answer)
            terminal.sees("Done so far.")
            assert (desk.project / "made").exists() is runs
        [result] = desk.model.requests[1].results
        assert ("User denied execution" in result) is not runs


def test_a_session_without_a_model_says_how_to_choose_one(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk, desk.agent("--provider", "mistral", columns=62) as terminal:
        shown = prompts(terminal)
        assert "no model is chosen yet: enter /model NAME" in shown
        assert "asks mistral for its models" in " ".join(shown.split())
        terminal.press("/model small\r")
        terminal.sees("MODEL: small")


def test_what_is_typed_before_a_question_does_not_answer_it(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, command("rm -f x"), say("Over.")) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("clean up\ry\ry\r")
        terminal.sees("Execute? (y/[n]):")
        terminal.press("\r")
        terminal.sees("Over.")
        assert "User denied execution" in desk.model.requests[1].results[0]


def test_ctrl_c_cancels_a_reply_and_the_session_goes_on(manager: ManagerProcess, tmp_path: Path) -> None:
    silent = Broken(say("never ", "comes"), after=0, how="silent")
    with agent_desk(manager, tmp_path, silent, say("Here I am.")) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("hello\r")
        terminal.see(lambda shown: "Ctrl-C cancels" in shown and bool(desk.model.requests), "a request")
        terminal.press("\x03")
        terminal.sees("cancelled")
        prompts(terminal)
        terminal.press("again\r")
        terminal.sees("Here I am.")
        prompts(terminal)
        terminal.press("/quit\r")
        assert terminal.ended() == 0


@pytest.mark.parametrize("colours", [True, False])
def test_ctrl_c_at_the_prompt_leaves_the_second_time(
    manager: ManagerProcess, tmp_path: Path, colours: bool
) -> None:
    with agent_desk(manager, tmp_path) as desk:
        if not colours:
            desk.environ["NO_COLOR"] = "1"
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            prompts(terminal)
            terminal.press("\x03")
            terminal.sees("press Ctrl-C again to leave")
            terminal.press("\x03")
            assert terminal.ended() == 130


def test_ctrl_c_in_a_question_cancels_the_turn(manager: ManagerProcess, tmp_path: Path) -> None:
    with (
        agent_desk(manager, tmp_path, command("touch made"), say("unused")) as desk,
        desk.agent() as terminal,
    ):
        terminal.sees("HIL: ACTIVE")
        terminal.press("make it\r")
        terminal.sees("Execute?")
        terminal.press("\x03")
        terminal.sees("cancelled")
        assert prompts(terminal).count("cancelled") == 1
        assert not (desk.project / "made").exists()
        assert len(desk.model.requests) == 1


def test_ctrl_c_ends_a_command_with_all_it_started(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, command("touch began; sleep 60; touch ended"), say("x")) as desk:
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("wait\r")
            terminal.sees("Execute?")
            terminal.press("y\r")
            terminal.see(lambda _: (desk.project / "began").exists(), "the command")
            terminal.press("\x03")
            terminal.sees("cancelled")
            prompts(terminal)
            terminal.press("/quit\r")
            assert terminal.ended() == 0
        assert not (desk.project / "ended").exists()


def test_an_agent_that_is_killed_leaves_no_command(manager: ManagerProcess, tmp_path: Path) -> None:
    waiting = command("sleep 300 & echo $! > began.part; mv began.part began; wait")
    with agent_desk(manager, tmp_path, waiting) as desk:
        began = desk.project / "began"
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("wait\r")
            terminal.sees("Execute?")
            terminal.press("y\r")
            terminal.see(lambda _: began.exists(), "the command")
            sleeper = psutil.Process(int(began.read_text()))
            terminal.process.kill()
            terminal.ended()
        psutil.wait_procs([sleeper], timeout=20)
        assert not sleeper.is_running()


def test_ctrl_c_twice_in_a_turn_leaves(manager: ManagerProcess, tmp_path: Path) -> None:
    silent = Broken(say("never"), after=0, how="silent")
    with agent_desk(manager, tmp_path, silent) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("hello\r")
        terminal.see(lambda shown: "Ctrl-C cancels" in shown and bool(desk.model.requests), "a request")
        terminal.press("\x03")
        terminal.sees("cancelled")
        terminal.press("\x03")
        assert terminal.ended() == 130


def test_the_end_of_input_leaves(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        before = terminal.modes()
        terminal.press("\x04")
        assert terminal.ended() == 0
        assert before[3] != 0
        assert "Traceback" not in terminal.printed.decode(errors="replace")


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


def test_a_terminal_that_is_closed_ends_the_turn_in_order(manager: ManagerProcess, tmp_path: Path) -> None:
    silent = Broken(say("never"), after=0, how="silent")
    with agent_desk(manager, tmp_path, call("calculator", {"expression": "6*7"}), silent) as desk:
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("how much?\r")
            terminal.see(lambda _: len(desk.model.requests) == 2, "the second request")
            terminal.hang_up()
            assert terminal.process.wait(within(SHOWN_S)) == 143
        files = (Path(desk.environ["LMTB_STATE_DIR"]) / "agent-sessions").glob("*.jsonl")
        [saved] = [text for file in files if "how much?" in (text := file.read_text())]
        assert "turn ended: cancelled" in saved


def test_a_session_that_is_terminated_restores_the_terminal(manager: ManagerProcess, tmp_path: Path) -> None:
    silent = Broken(say("never"), after=0, how="silent")
    with agent_desk(manager, tmp_path, silent) as desk, desk.agent() as terminal:
        before = terminal.modes()
        terminal.sees("HIL: ACTIVE")
        terminal.press("hello\r")
        terminal.sees("Ctrl-C cancels")
        assert terminal.modes()[3] != before[3]
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended() == 143
        assert terminal.modes()[3] == before[3]


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


def test_ctrl_c_works_without_colours_too(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, command("touch made"), say("unused")) as desk:
        desk.environ["NO_COLOR"] = "1"
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("make it\n")
            terminal.sees("Execute?")
            terminal.press("\x03")
            terminal.sees("cancelled")
            prompts(terminal)
            terminal.press("/quit\n")
            assert terminal.ended() == 0
        assert not (desk.project / "made").exists()
