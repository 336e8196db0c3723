"""Commands at a terminal: how long they take, and how long they show nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts.benchmarks.startup import at_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
ENVIRON = {"PATH": "/usr/bin:/bin"}


def run(command: str, folder: Path, within_s: float = 30) -> at_terminal.Ran:
    return at_terminal.run(["sh", "-c", command], folder, ENVIRON, within_s)


def test_the_longest_time_without_output_is_measured(tmp_path: Path) -> None:
    found = run("test -t 1 && echo one; sleep 0.6; echo two; sleep 0.1; echo three", tmp_path)
    assert (found.code, found.output.split()) == (0, ["one", "two", "three"])
    assert 0.5 < found.silence < found.seconds


def test_silence_lasts_until_the_command_ends(tmp_path: Path) -> None:
    found = run("sleep 0.6; exit 3", tmp_path)
    assert found.code == 3
    assert found.silence == found.seconds > 0.5


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    found = run("trap '' HUP; sleep 5 & echo done", tmp_path)
    assert (found.code, found.seconds < 4) == (0, True)


def test_a_command_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    found = run("exec sleep 30", tmp_path, within_s=0.3)
    assert (found.code, found.seconds < 10) == (None, True)
