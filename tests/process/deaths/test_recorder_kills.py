"""Tests that a manager killed under load loses at most a second of its records, and no more of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.reliability.recorder_kills import killed
from support.processes.managers.manager_in_process import make_project


@pytest.mark.parametrize("seconds", [0.8, 1.9])
def test_a_manager_killed_under_load_loses_at_most_a_second_of_records(
    tmp_path: Path, seconds: float
) -> None:
    project = make_project(tmp_path / "project")
    for _ in range(2):  # the second time its database has calls and a log of changes
        found = killed(tmp_path / "user", project, seconds)
        assert found.is_whole
        assert found.answered > found.lost
        assert found.lost_s <= 1.0, f"{found.lost} of {found.answered} calls are lost"
