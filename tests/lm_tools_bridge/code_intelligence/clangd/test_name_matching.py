"""Tests of the search for names by a regular expression."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.clangd import name_matching
from lm_tools_bridge.code_intelligence.clangd.name_matching import BadPattern, matching


async def test_names_that_contain_a_match_are_found() -> None:
    assert await matching("^push", ["push_back", "pop", "pushed", "unpush"]) == [0, 2]
    assert await matching("é", ["café", "cafe"]) == [0]
    assert await matching("a", []) == []


async def test_a_bad_pattern_is_refused_with_reason_and_position() -> None:
    assert await matching("a(", ["a"]) == BadPattern("missing ), unterminated subpattern at position 1")
    assert isinstance(await matching("a" * 2000, ["a"]), BadPattern)


async def test_a_pattern_that_takes_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_matching, "TIME_S", 0.5)
    found = await matching("(a+)+$", ["a" * 60 + "b"])
    assert isinstance(found, BadPattern) and "takes longer" in found.reason
