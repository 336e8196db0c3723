"""`lmtb top` at a pseudo terminal, with a real manager: seen, resized, waiting, quit, and the terminal after it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from support.processes.managers.manager_process import environment, lmtb, running_manager
from support.processes.terminals.screen_session import ALTERNATE_OFF, ALTERNATE_ON, screen_session

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal"),
    pytest.mark.terminals,
]
TOP = [sys.executable, "-I", "-m", "manager", "top", "--interval", "0.2"]
WAIT = '#!/usr/bin/env python3\nimport os, time\nwhile not os.path.exists("go"): time.sleep(0.02)\nprint("gone")\n'


def make_project(folder: Path, config_dir: Path) -> Path:
    """A project, and a tool of its user that runs until the project has a file `go`."""
    (folder / ".git").mkdir(parents=True)
    tool = config_dir / "tools" / "wait_for_go"
    tool.mkdir(parents=True)
    (tool / "tool.toml").write_text('description = "Waits."\nscript = "wait.py"\n')
    (tool / "wait.py").write_text(WAIT)
    return folder


def test_running_call_is_shown_then_ended_and_the_terminal_is_as_before(tmp_path: Path) -> None:
    with running_manager(tmp_path) as manager:
        project = make_project(tmp_path / "projects" / "shop", tmp_path / "config")
        with screen_session(TOP, {**manager.environ, "LANG": "C.UTF-8"}) as terminal:
            before = terminal.modes()
            terminal.sees("no servers yet")
            call = partial(manager.lmtb, "call", "wait_for_go", cwd=project)
            caller = threading.Thread(target=call, daemon=True)
            caller.start()
            shown = terminal.sees("wait_for_go")
            assert "… running" in shown
            assert "lmtb" in shown
            assert "1 running" in shown
            (project / "go").touch()
            caller.join()
            shown = terminal.sees("✓ ok")
            assert "s ago" in shown
            terminal.resize(50, 12)
            terminal.see(lambda text: len(text.split("\n")) == 12 and text.endswith("q quits"))
            assert terminal.modes() != before
            terminal.press("q")
            assert terminal.ended() == 0
            assert terminal.modes() == before
            assert terminal.printed.count(ALTERNATE_ON) == terminal.printed.count(ALTERNATE_OFF) == 1
            assert terminal.printed.rfind(b"\x1b[?25h") > terminal.printed.rfind(b"\x1b[?25l"), "the cursor"


def test_it_waits_for_the_manager_and_goes_on_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()  # what is left of a manager is found by its home
    with screen_session(TOP, {**environment(tmp_path), "HOME": str(tmp_path / "elsewhere")}) as terminal:
        terminal.sees("waiting for the manager")
        with running_manager(tmp_path):
            terminal.sees("is ready")
        terminal.sees("waiting for the manager")
        with running_manager(tmp_path):
            terminal.sees("is ready")
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.ended() == 0
        assert ALTERNATE_OFF in terminal.printed


@pytest.mark.parametrize("keys", ["\x03", "Q"])
def test_keys_that_quit(tmp_path: Path, keys: str) -> None:
    with screen_session(TOP, environment(tmp_path)) as terminal:
        before = terminal.modes()
        terminal.sees("q quits")
        terminal.press(f"x{keys}")
        assert terminal.ended() == 0
        assert terminal.modes() == before


def test_frames_as_lines_of_json_also_without_a_manager(tmp_path: Path) -> None:
    with running_manager(tmp_path) as manager:
        once = json.loads(manager.lmtb("top", "--once", "--json").stdout)
        assert once["ok"]
        assert once["manager"]["pid"] == manager.process.pid
        assert once["manager"]["rssBytes"] > 1_000_000
        assert manager.lmtb("top").stdout.startswith("LM Tools Bridge"), "piped: one frame"
    with subprocess.Popen([*TOP, "--json"], env=environment(tmp_path), stdout=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        lines = [json.loads(watching.stdout.readline()) for _ in range(2)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 0
    assert [one["problem"]["reason"] for one in lines] == ["no_manager"] * 2
    assert lmtb(environment(tmp_path), "top", "--once").returncode == 5
