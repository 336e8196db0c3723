"""Tests how views look: plain in a pipe, and in the width of a terminal."""

from __future__ import annotations

import io
from typing import Any, get_args

import pytest

from lm_tools_bridge.terminal import show as module
from lm_tools_bridge.terminal.lines import columns_of, lines, plain
from lm_tools_bridge.terminal.screen import Screen
from lm_tools_bridge.terminal.show import show
from lm_tools_bridge.terminal.views import (
    ASCII_MARKS,
    MARKS,
    Column,
    Fact,
    FactList,
    Kind,
    Note,
    Table,
    Tone,
    View,
    tone_of,
)
from manager.routing.state.client_overview import ClientState
from manager.routing.state.lifecycle import State
from workspace_server.source import SourceState

NAMED = (Column("NAME", Kind.NAME), Column("CALLS", Kind.NUMBER, rank=1), Column("FOLDER", Kind.FOLDER))
LONG = "/home/me/code/a-rather-long-name-of-a-customer/shop/api"
DETAILED = (Column("NAME", Kind.NAME), Column("STATE", Kind.STATE, rank=1), Column("ERROR", Kind.DETAIL))


def drawn(view: View, width: int, **options: Any) -> list[str]:
    screen = Screen(width, columns_of, MARKS, home="/home/me")._replace(**options)
    return ["".join(span.text for span in line) for line in lines(view, screen)]


def test_a_plain_table_aligns_texts_left_and_numbers_right() -> None:
    table = Table((Column("NAME"), Column("CALLS", Kind.NUMBER)), [("a", 5), ("bcdefg", 12), (None, None)])
    assert plain(table).splitlines() == ["NAME    CALLS", "a           5", "bcdefg     12", "-           -"]


def test_wide_characters_count_twice() -> None:
    table = Table((Column("A"), Column("B")), [("漢字", "x"), ("abcd", "y")])
    assert plain(table).splitlines()[1:] == ["漢字  x", "abcd  y"]


def test_plain_text_is_whole_and_escaped_without_marks() -> None:
    table = Table((Column("STATE", Kind.STATE), Column("F", Kind.FOLDER)), [("ready", f"/x\x1b{'y' * 500}")])
    assert plain(table, Note("n" * 300, Tone.BAD)).splitlines()[1:] == [
        f"ready  /x\\x1b{'y' * 500}",
        "n" * 300,
    ]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (70, ["NAME    CALLS  FOLDER", "shop-1      7  ~/code/a-rather-long-name-of-a-customer/shop/api"]),
        (50, ["NAME    CALLS  FOLDER", "shop-1      7  …/shop/api"]),
        (36, ["NAME    FOLDER", "shop-1  …/shop/api"]),
        (20, ["NAME    CALLS", "shop-1      7", "    …/shop/api"]),
        (12, ["NAME", "shop-1", "    …/api"]),
        (5, ["NAME    shop-1", "CALLS   7", "FOLDER  …"]),
    ],
)
def test_a_folder_keeps_its_end_and_columns_give_way_by_rank(width: int, shown: list[str]) -> None:
    assert drawn(Table(NAMED, [("shop-1", 7, LONG)]), width) == shown


def test_a_long_detail_goes_below_its_row_whole() -> None:
    rows = [("gh", "failed", "it ended at once; retry with: lmtb servers restart gh"), ("fs", "ready", None)]
    assert drawn(Table(DETAILED, rows), 44) == [
        "NAME  STATE",
        "gh    ✗ failed",
        "    it ended at once; retry with:",
        "    lmtb servers restart gh",
        "fs    ✓ ready",
    ]
    assert drawn(Table(DETAILED, rows), 80)[1] == f"gh    ✗ failed  {rows[0][2]}"


@pytest.mark.parametrize("width", range(8, 120, 7))
def test_no_line_is_wider_than_the_terminal_and_names_are_whole(width: int) -> None:
    rows = [("a-name", 12345, "/漢字/" + "漢" * 30), ("b", None, LONG)]
    shown = drawn(Table(NAMED, rows, indent=2 if width > 40 else 0), width)
    assert "a-name" in " ".join(shown)
    assert width < 15 or all(columns_of(line) <= width for line in shown)


def test_groups_are_labelled_only_if_there_are_several() -> None:
    table = Table((Column("TOOL"),), [("a",), ("b",)], groups=["One", "Two"])
    assert plain(table).splitlines() == ["TOOL", "", "One", "a", "", "Two", "b"]
    assert plain(table._replace(groups=["One", "One"])).splitlines() == ["TOOL", "a", "b"]


def test_facts_and_notes_break_between_words_and_keep_commands_whole() -> None:
    facts = FactList([Fact("state", "ok"), Fact("problem", "one two three: lmtb trust --diff /x", Tone.WARN)])
    assert drawn(facts, 40) == [
        "state    ok",
        "problem  ! one two three:",
        "           lmtb trust --diff /x",
    ]
    assert drawn(Note("  a b c d", Tone.BAD), 8) == ["✗   a b", "    c d"]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    def encode(text: str) -> str:
        return text.encode("ascii", "backslashreplace").decode()

    shown = drawn(Table(NAMED, [("a", 1, f"{LONG}é")]), 50, marks=ASCII_MARKS, ellipsis="...", encode=encode)
    assert shown[1] == "a         1  .../shop/api\\xe9"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({}, "\x1b[32m✓ ready\x1b[0m"),
        ({"NO_COLOR": "1"}, "✓ ready"),
        ({"TERM": "dumb"}, "✓ ready"),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "✓ ready"),
    ],
)
def test_colours_follow_the_environment(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], shown: str
) -> None:
    for name, value in ({"TERM": "xterm", "NO_COLOR": "", "FORCE_COLOR": ""} | environ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.sys, "stdout", Terminal())
    show(Table((Column("[bold]S", Kind.STATE),), [("ready",)]), "[red]x[/red] :smile:")
    said = module.sys.stdout.getvalue().splitlines()
    assert said[1:] == [shown, "[red]x[/red] :smile:"]


def test_forced_colours_go_into_pipes_uncut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(module.sys, "stdout", io.StringIO())
    show(Table((Column("S", Kind.STATE), Column("T")), [("failed", "t" * 200)]))
    assert "\x1b[31m" in module.sys.stdout.getvalue() and "t" * 200 in module.sys.stdout.getvalue()


def test_every_state_that_is_shown_has_a_tone() -> None:
    states = {*get_args(SourceState), *(one.value for one in State), *(one.value for one in ClientState)}
    assert not {state for state in states if tone_of(state) is None}


def test_what_does_not_work_is_not_good() -> None:
    assert tone_of("ready") is Tone.GOOD
    assert tone_of("ready (stale)") is tone_of("backoff (stale)") is Tone.WARN
    assert tone_of("crash_looping (stale)") is tone_of("failed: no such file") is Tone.BAD
    assert tone_of("") is tone_of("something else") is None


def test_each_tone_has_a_mark_of_its_own() -> None:
    for marks in (MARKS, ASCII_MARKS):
        assert len(set(marks.values())) == len(Tone) and all(len(mark) == 1 for mark in marks.values())
    assert "".join(ASCII_MARKS.values()).isascii()
