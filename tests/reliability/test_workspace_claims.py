"""Requests whose claims contradict each other are answered from the right project, or refused."""

from __future__ import annotations

from pathlib import Path

from scripts.reliability.workspace_claims import run


async def test_contradicting_claims_find_no_wrong_answer(tmp_path: Path) -> None:
    """The script sends ten thousand and more; the seed makes a failure repeatable."""
    requests = await run(300, 1, tmp_path.resolve())
    assert requests.faults == []
    assert requests.counts["right"] > 100
    assert requests.counts["refused"] > 30
