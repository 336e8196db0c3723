"""Tests which known names are suggested for an unknown one."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.near_names import did_you_mean


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("timeuot", "; did you mean timeout?"),
        ("TIMEOUT", "; did you mean timeout?"),
        ("stat", "; did you mean start or status?"),
        ("zzz", ""),
        ("x" * 100_000, ""),
    ],
)
def test_the_nearest_names_are_suggested(name: str, said: str) -> None:
    assert did_you_mean(name, ["status", "start", "timeout"], count=2) == said
