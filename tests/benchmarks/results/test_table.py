"""Markdown tables."""

from __future__ import annotations

import pytest

from scripts.benchmarks.results.table import cell, table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (-0.5, "-0.50"),
        (12345, "12,345"),
        (None, "–"),
        ("x", "x"),
    ],
)
def test_a_cell_has_the_digits_that_count(value: object, text: str) -> None:
    assert cell(value) == text


def test_rows_stand_under_their_columns() -> None:
    assert table(("case", "µs"), [("small", 3.5)]) == "| case | µs |\n| --- | --: |\n| small | 3.50 |"
