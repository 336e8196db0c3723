"""Ctrl-C, a lost terminal and a killed agent end what runs, and leave nothing behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lm_tools_bridge.agent.screen.screen import HINT
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import agent_desk, command, prompts
from support.processes.terminals.screen_session import SHOWN_S
from support.processes.timeouts import within
from support.projects.script_tools import write_tool
from support.servers.models.formats.steps import call, say
from support.servers.models.model_server import Broken

pytestmark = [pytest.mark.timeout(180), pytest.mark.terminals]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


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


def test_a_signal_at_the_prompt_counts_like_the_key(manager: ManagerProcess, tmp_path: Path) -> None:
    """Such as the signal of a Ctrl-C that was pressed while the terminal was not yet the prompt's."""
    with agent_desk(manager, tmp_path) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        prompts(terminal)
        terminal.process.send_signal(signal.SIGINT)
        terminal.sees(HINT)
        prompts(terminal)
        terminal.press("\x03")
        terminal.see(lambda shown: shown.count(HINT) > 1 or terminal.process.poll() is not None, "its end")
        if terminal.process.poll() is None:
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
        terminal.see(
            lambda shown: HINT in shown or terminal.process.poll() is not None, "what the second one did"
        )
        if terminal.process.poll() is None:  # it came more than 2 s after the first: a busy machine
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


def test_ctrl_c_cancels_a_reply_that_has_begun(manager: ManagerProcess, tmp_path: Path) -> None:
    half = Broken(say(*["piece " for _ in range(40)]), after=1500, how="silent")
    with agent_desk(manager, tmp_path, half, say("Here I am.")) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("hello\r")
        terminal.sees("│ piece piece")
        terminal.resize(50, 20)
        terminal.press("\x03")
        terminal.see(lambda shown: "cancelled" in shown and "╰" in shown, "the end of the box")
        prompts(terminal)
        terminal.press("again\r")
        terminal.sees("Here I am.")
        assert "piece piece" in str(desk.model.requests[1].body)


@pytest.mark.parametrize(
    ("text", "settings", "keys", "question"),
    [
        ("touch made", "", "e\r", "Inputs as JSON:"),
        ("sudo touch made", 'sudo = "askpass"', "y\r", "[sudo] password:"),
    ],
)
def test_ctrl_c_at_a_further_question_cancels_the_turn(
    manager: ManagerProcess, tmp_path: Path, text: str, settings: str, keys: str, question: str
) -> None:
    turns = (command(text), say("unused"))
    with agent_desk(manager, tmp_path, *turns, settings=settings) as desk, desk.agent(rows=40) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("make it\r")
        terminal.sees("Execute?")
        terminal.press(keys)
        terminal.sees(question)
        terminal.press("\x03")
        terminal.sees("cancelled")
        prompts(terminal)
        assert not (desk.project / "made").exists()
        assert len(desk.model.requests) == 1


def test_ctrl_c_ends_a_call_at_its_server(manager: ManagerProcess, tmp_path: Path) -> None:
    script = "import pathlib, time\nfor _ in range(600):\n    pathlib.Path('beat').write_text(str(time.time()))\n    time.sleep(0.1)"
    with agent_desk(manager, tmp_path, call("beats", {}), say("unused")) as desk:
        write_tool(desk.config_file.parent / "tools", "beats", script)
        beat = desk.project / "beat"

        def has_stopped(_: str) -> bool:
            before = beat.read_text()
            time.sleep(0.5)
            return beat.read_text() == before

        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("go\r")
            terminal.sees("Execute?")
            terminal.press("y\r")
            terminal.see(lambda _: beat.exists(), "the call")
            terminal.press("\x03")
            terminal.sees("cancelled")
            prompts(terminal)
            terminal.see(has_stopped, "the end of the script")
        assert len(desk.model.requests) == 1
