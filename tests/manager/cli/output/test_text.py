"""Tests tables, durations and sizes as they are printed."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from manager.cli.output.text import duration, latency, size, table


def test_table_aligns_texts_left_and_numbers_right() -> None:
    drawn = table(("NAME", "CALLS"), [("a", 5), ("bcdefg", 12), (None, None)])
    assert drawn.splitlines() == ["NAME    CALLS", "a           5", "bcdefg     12", "-           -"]


def test_table_counts_wide_characters_twice() -> None:
    assert table(("A", "B"), [("漢字", "x"), ("abcd", "y")]).splitlines()[1:] == ["漢字  x", "abcd  y"]


def test_table_without_a_terminal_is_never_cut() -> None:
    assert table(("A",), [("x" * 500,)], flexible=("A",)).splitlines()[1] == "x" * 500


@pytest.mark.parametrize("columns", [30, 40, 60])
def test_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    drawn = table(("NAME", "N", "FOLDER"), [("n" * 20, 7, "/" + "f" * 50)], flexible=("NAME", "FOLDER"))
    assert all(len(line) <= columns for line in drawn.splitlines())
    assert "…" in drawn


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (7500, "2 h 5 min"), (90000, "1 d 1 h"), (None, None)],
)
def test_duration_is_shown_in_two_units_at_most(seconds: object, shown: str | None) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(("count", "shown"), [(51_400_000, "51 MB"), (2_340_000_000, "2.3 GB"), ("x", None)])
def test_size_is_shown_in_megabytes(count: object, shown: str | None) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0.0374, "0.04 ms"), (1.25, "1.2 ms"), (12.4, "12 ms"), (2500, "2.5 s"), (None, None), ("1", None)],
)
def test_latencies_are_shown_as_precisely_as_they_matter(milliseconds: object, shown: str | None) -> None:
    assert latency(milliseconds) == shown
