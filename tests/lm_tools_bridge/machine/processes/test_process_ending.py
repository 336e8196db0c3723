"""How a process ended is said in words; a kill that the kernel did for want of memory is told from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.machine.processes.process_ending import Ending, memory_kills


@pytest.fixture
def counters(tmp_path: Path) -> Path:
    """The kernel's counters, as they are when the process starts."""
    file = tmp_path / "vmstat"
    file.write_text("nr_free_pages 7\noom_kill 4\ndrop_pagecache 0\n")
    return file


@pytest.mark.parametrize(("code", "words"), [
    (0, "exited with code 0"),
    (3, "exited with code 3"),
    (-15, "was ended by SIGTERM"),
    (-9, "was ended by SIGKILL"),
    (-99, "was ended by signal 99"),
    (None, "ended, nobody knows with which exit code"),
])  # fmt: skip
def test_an_exit_code_is_said_in_words(counters: Path, code: int | None, words: str) -> None:
    assert Ending(counters).words(code) == words


@pytest.mark.parametrize(
    ("kills", "told"), [(5, "ended a process for that"), (7, "ended 3 processes for that")]
)
def test_a_kill_while_memory_ran_out_names_the_probable_cause(counters: Path, kills: int, told: str) -> None:
    ending = Ending(counters)
    counters.write_text(f"oom_kill {kills}\n")
    words = ending.words(-9)
    assert words.startswith("was ended by SIGKILL, probably because memory ran out: the kernel ")
    assert told in words
    assert ending.words(-15) == "was ended by SIGTERM"
    assert Ending(counters).words(-9) == "was ended by SIGKILL"


@pytest.mark.parametrize("text", [None, "", "oom_kill many\n"])
def test_without_the_counter_no_cause_is_guessed(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "vmstat"
    if text is not None:
        file.write_text(text)
    assert memory_kills(file) is None
    assert Ending(file).words(-9) == "was ended by SIGKILL"
