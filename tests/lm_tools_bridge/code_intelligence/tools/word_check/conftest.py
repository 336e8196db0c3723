"""Comparisons in tests wait for their end: the limits of time are tested on their own."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.tools.word_check import absence, checking, project_words

LONG_S = 60.0


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give comparisons more time than a busy machine takes."""
    monkeypatch.setattr(checking, "CHECK_S", LONG_S)
    monkeypatch.setattr(checking, "QUICK_S", LONG_S)
    monkeypatch.setattr(project_words, "SEARCH_S", LONG_S)
    monkeypatch.setattr(absence, "ASK_S", LONG_S)
