"""From a folder inside a project, the agent finds the project as the manager does."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.agent.settings.project_folder import project_folder


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "src" / "inner"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("mark", [".git", ".lm-tools-bridge", ".vscode"])
def test_the_nearest_marked_folder_upward_is_the_project(inner: Path, mark: str) -> None:
    (inner.parents[1] / mark).mkdir()
    assert project_folder(inner) == inner.parents[1].resolve()


def test_settings_of_an_editor_inside_a_project_make_none(inner: Path) -> None:
    (inner.parents[1] / ".git").mkdir()
    (inner / ".vscode").mkdir()
    assert project_folder(inner) == inner.parents[1].resolve()


def test_the_home_folder_is_no_project(inner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inner.parents[1] / ".git").mkdir()
    monkeypatch.setenv("HOME", str(inner.parents[1]))
    assert project_folder(inner) == inner.resolve()
