"""The install section: the environment of its steps, and its rows for ways that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmarks import first_use
from scripts.benchmarks.plan import Plan


def test_environment_is_of_a_new_user_but_for_package_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    monkeypatch.setenv("UV_INDEX", "simple")
    monkeypatch.setenv("LMTB_CONFIG_DIR", "/mine")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    made = first_use.environment(tmp_path)
    assert (made["PIP_FIND_LINKS"], made["UV_INDEX"], made["HOME"]) == ("/wheels", "simple", str(tmp_path))
    assert "/mine" not in made.values()
    assert made["LMTB_HTTP_PORT"] == "0"


def test_missing_installer_is_a_row_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    section = first_use.run(Plan(folder=tmp_path))
    assert "uv is not on the PATH" in section.text
    assert "pipx is not on the PATH" in section.text
    assert dict(section.data) == {}


def test_failed_installation_is_reported_with_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(first_use.NotInstallable, match="broken wheel"):
        first_use.run_step(
            ["sh", "-c", "echo first >&2; echo broken wheel >&2; exit 1"], tmp_path, {"PATH": "/usr/bin:/bin"}
        )
