"""A project whose language servers are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.language_project import LanguageProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LanguageProject:
    """A project; our own environment has no server."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.kinds.programs.OWN_SCRIPTS", str(scripts))
    return LanguageProject(tmp_path)
