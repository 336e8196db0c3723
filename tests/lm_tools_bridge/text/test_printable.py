"""Tests of the escapes for text that is shown in a terminal."""

from __future__ import annotations

import shlex

import pytest

from lm_tools_bridge.text.printable import operand, printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 漢", "plain ä 漢"),
        ("\x1b]52;c;x\x07", "\\x1b]52;c;x\\x07"),
        ("a\nb", "a\\nb"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        (None, "None"),
    ],
)
def test_control_characters_of_terminals_are_escaped(text: object, shown: str) -> None:
    assert printable(text) == shown


def test_line_breaks_are_kept_on_request() -> None:
    assert printable("a\n\tb\r\x1b", lines=True) == "a\n\tb\\r\\x1b"


def test_lines_are_escaped_one_by_one_and_counted_where_cut() -> None:
    shown = printable_lines("a\x1b\nbcd\ne\nf", most=2, width=2)
    assert shown == ["a\\x1b", "bc … (1 more characters)", "… (2 more lines)"]
    assert printable_lines("a\nb", most=2, width=2) == ["a", "b"]


@pytest.mark.parametrize("name", ["run", "git__log", "-x", "--help", "a b", "-a b", "a;b", "$(a)"])
def test_the_name_is_the_last_word_of_the_command_and_no_option(name: str) -> None:
    words = shlex.split(f"lmtb tools allow {operand(name)}")
    assert words[-1] == name
    assert (words[-2] == "--") is name.startswith("-")


def test_a_plain_name_stays_as_it_is() -> None:
    assert operand("git__log") == "git__log"
