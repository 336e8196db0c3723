"""Ctrl-C cancels what runs; the agent leaves only if it is pressed twice within 2 s."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lm_tools_bridge.agent.screen.screen import TWICE_S, Interrupts, box
from support.clock import ManualClock


def test_only_two_presses_within_two_seconds_leave() -> None:
    clock = ManualClock()
    interrupts = Interrupts(clock)
    presses = []
    for seconds in (0, TWICE_S + 0.1, TWICE_S):
        clock.now += seconds
        presses.append(interrupts.press())
    assert presses == [False, False, True]


def test_a_box_looks_as_it_is_described() -> None:
    lines = ["Action:  run_shell_command", 'Inputs:  {"command": "rm -rf build/old"}']
    assert "\n".join(box("GUARD - ACTION PENDING", lines, 80)) == (
        "╭─ GUARD - ACTION PENDING ────────────────────╮\n"
        "│ Action:  run_shell_command                  │\n"
        '│ Inputs:  {"command": "rm -rf build/old"}    │\n'
        "╰─────────────────────────────────────────────╯"
    )


def test_a_box_is_at_most_80_columns_wide() -> None:
    drawn = box("SYSTEM OUTPUT LOG", ["word " * 60], 200)
    assert {cell_len(line) for line in drawn} == {79}
    assert len(drawn) == 6


def test_lines_are_broken_between_words() -> None:
    drawn = box("SUDO", ["alpha beta gamma delta"], 16)
    assert drawn[1:-1] == ["│ alpha beta   │", "│ gamma delta  │"]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8") | st.sampled_from("日本語\x1b\x07\u202e\r\n\t👩")), max_size=4
    ),
    st.integers(10, 100),
)
def test_every_line_has_the_same_width_and_no_control_characters(lines: list[str], columns: int) -> None:
    drawn = box("TITLE", lines, columns)
    assert len({cell_len(line) for line in drawn}) == 1
    assert cell_len(drawn[0]) <= max(columns, 8)
    assert all(line.isprintable() for line in drawn)


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "\u202eabc", "x" * 500, "\u200b"])
def test_hostile_lines_stay_inside(text: str) -> None:
    drawn = box("GUARD - ACTION PENDING", [text], 40)
    assert all(line[0] + line[-1] in {"╭╮", "││", "╰╯"} for line in drawn)
