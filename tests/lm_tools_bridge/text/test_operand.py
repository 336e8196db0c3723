"""Names in commands that a person is told to run."""

from __future__ import annotations

import shlex

import pytest

from lm_tools_bridge.text.operand import operand


@pytest.mark.parametrize("name", ["run", "git__log", "-x", "--help", "a b", "-a b", "a;b", "$(a)"])
def test_the_name_is_the_last_word_of_the_command_and_no_option(name: str) -> None:
    words = shlex.split(f"lmtb tools allow {operand(name)}")
    assert words[-1] == name
    assert (words[-2] == "--") is name.startswith("-")


def test_a_plain_name_stays_as_it_is() -> None:
    assert operand("git__log") == "git__log"
