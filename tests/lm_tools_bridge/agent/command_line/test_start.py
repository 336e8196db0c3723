"""Tests what is loaded before the first prompt, and with what a run begins."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from lm_tools_bridge.agent.command_line.arguments import read_arguments
from lm_tools_bridge.agent.command_line.start import Start, read_start
from lm_tools_bridge.agent.screen.plain_screen import PlainScreen

LATER = (
    "lm_tools_bridge.agent.assembly",
    "lm_tools_bridge.agent.conversation",
    "lm_tools_bridge.agent.guard",
    "lm_tools_bridge.agent.manager_client",
    "aiohttp",
    "rich.console",
)


def start(folder: Path, out: io.StringIO, *words: str) -> Start | None:
    """What a run in this user's folders begins with."""
    folders = [word for name in ("config", "state", "runtime") for word in (f"--{name}-dir", str(folder))]
    return read_start(PlainScreen(out, out, None, asks=False), read_arguments([*words, *folders]))


def test_the_prompt_waits_for_nothing_that_only_a_turn_needs() -> None:
    code = (
        "import sys, lm_tools_bridge.agent.__main__, lm_tools_bridge.agent.command_line.verbs, lm_tools_bridge.agent.command_line.session_loop\n"
        "import lm_tools_bridge.agent.screen.terminal_screen\n"
        f"print([name for name in {LATER!r} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_a_session_starts_without_click() -> None:
    code = (
        "import os, sys\nsys.argv = ['lmtb', 'agent']\n"
        "os.execv = lambda program, words: print('click' in sys.modules, words[1:5]) or sys.exit()\n"
        "from manager.cli import main\nmain()"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False ['-I', '-m', 'lm_tools_bridge.agent', 'session']"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "MODEL: small | HIL: OFF"),
        (("--model", "other"), "MODEL: other | HIL: OFF"),
        (("--provider", "GEMINI"), "MODEL: none (gemini) | HIL: OFF"),
        (("--provider", "manual"), "MODEL: manual | HIL: OFF"),
    ],
)
def test_the_first_prompt_names_the_model(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    (tmp_path / "config.toml").write_text('[agent]\nhuman_in_loop = false\nmodel = {ollama = "small"}\n')
    begun = start(tmp_path, io.StringIO(), *words)
    assert begun is not None
    assert begun.state_line == line


def test_an_unknown_provider_ends_the_run(tmp_path: Path) -> None:
    out = io.StringIO()
    assert start(tmp_path, out, "--provider", "olama") is None
    assert "did you mean ollama?" in out.getvalue()
