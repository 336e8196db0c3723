"""Tests durations, sizes and latencies as they are printed."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.quantities import duration, latency, size


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
