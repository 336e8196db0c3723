"""The install section: the environment of its steps, and its rows for ways that fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.benchmarks.plan import Plan
from scripts.benchmarks.startup import first_use

TIMES = first_use.Times(0.1, 6.0, 0.5, 0.4, 1.2)


def test_environment_is_of_a_new_user_but_for_package_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_uv, others = tmp_path / "with-uv", tmp_path / "others"
    with_uv.mkdir()
    (with_uv / "uv").touch()
    for name, value in {
        "PIP_FIND_LINKS": "/wheels", "UV_INDEX": "simple", "LMTB_CONFIG_DIR": "/mine", "PYTHONPATH": "/mine",
        "UV_CACHE_DIR": "/mine", "PATH": f"{with_uv}:{others}",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    made = first_use.environment(tmp_path, tmp_path / "caches", [])
    assert (made["PIP_FIND_LINKS"], made["UV_INDEX"], made["HOME"]) == ("/wheels", "simple", str(tmp_path))
    assert "/mine" not in made.values()
    assert made["LMTB_HTTP_PORT"] == "0"
    assert made["PATH"] == str(others), "a way without uv finds none"
    assert first_use.environment(tmp_path, tmp_path, [with_uv])["PATH"].startswith(f"{with_uv}:")


def test_missing_installer_is_a_row_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(first_use, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(first_use.subprocess, "run", refuse)
    section = first_use.run(Plan(folder=tmp_path))
    assert "uv is not on the PATH, and pip does not install it" in section.text
    assert "git: [Errno 2]" in section.text
    assert dict(section.data) == {}


def test_failed_installation_is_reported_with_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(first_use.NotInstallable, match=r"sh -c .*: broken wheel$"):
        first_use.run_step(
            ["sh", "-c", "echo first >&2; echo broken wheel >&2; exit 1"], tmp_path, {"PATH": "/usr/bin:/bin"}
        )


@pytest.mark.parametrize(
    ("caches", "times", "goal"),
    [
        ("empty", TIMES, "together 8 s, silence 2 s: met"),
        ("full", TIMES, "silence 2 s: met"),
        ("empty", TIMES._replace(install=9.0), "together 8 s: missed"),
        ("full", TIMES._replace(silence=2.1), "silence 2 s: missed"),
    ],
)
def test_a_row_says_whether_its_goals_are_met(caches: str, times: first_use.Times, goal: str) -> None:
    shown = first_use.row("uv", caches, first_use.WAYS["`uv tool install .`"], times)
    assert shown[-1] == goal
    assert shown[-3:-1] == (f"{times.together:.1f} s", f"{times.silence:.1f} s")
