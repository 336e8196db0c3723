"""Starting a manager if none runs, and giving up."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from manager.configuration.paths import Paths
from manager.stdio_bridge import detached
from manager.stdio_bridge.manager_start import FAILED_S, PAUSE_S, UNIT, ManagerStarter
from support.processes.managers.manager_in_process import manager_paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return manager_paths(tmp_path)


@pytest.fixture
def no_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ManagerStarter, "_by_systemd", lambda self: False)


def program(path: Path, *lines: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def stands_for_python(monkeypatch: pytest.MonkeyPatch, path: Path, *lines: str) -> Path:
    """What is started instead of the program that starts the manager; it notes its arguments."""
    words = path.with_suffix(".words")
    monkeypatch.setattr(sys, "executable", str(program(path, f'echo "$@" >> {words}', *lines)))
    return words


def started(words: Path) -> list[str]:
    """The command lines so far, at least one."""
    deadline = time.monotonic() + 10
    while not (words.exists() and words.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return words.read_text().splitlines()


def ended(starter: ManagerStarter) -> None:
    assert starter._process is not None
    starter._process.wait(10)


@pytest.mark.parametrize(("code", "by_hand"), [(0, False), (5, True)])
def test_an_existing_systemd_service_is_preferred(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, by_hand: bool
) -> None:
    asked = tmp_path / "asked"
    program(tmp_path / "bin/systemctl", f'echo "$@" > {asked}', f"exit {code}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    words = stands_for_python(monkeypatch, tmp_path / "python")
    starter = ManagerStarter(paths, dict(os.environ))
    assert starter.start(0.0) is None
    assert asked.read_text() == f"--user --no-block start {UNIT}\n"
    assert (starter._process is not None) is by_hand
    if by_hand:
        assert started(words) == [f"-I -m manager.stdio_bridge.detached {paths.log_file}"]
        ended(starter)


def test_environment_settings_bypass_the_service(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    program(tmp_path / "bin/systemctl", f"echo > {asked}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    stands_for_python(monkeypatch, tmp_path / "python")
    starter = ManagerStarter(paths, {**os.environ, "LMTB_STATE_DIR": "/elsewhere"})
    assert starter.start(0.0) is None
    ended(starter)
    assert not asked.exists()


@pytest.mark.usefixtures("no_systemd")
def test_one_manager_is_started_at_a_time_and_not_too_often(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    words = stands_for_python(monkeypatch, tmp_path / "python", f"while [ ! -e {gate} ]; do sleep 0.01; done")
    starter = ManagerStarter(paths)
    assert starter.start(0.0) is None
    assert len(started(words)) == 1
    assert starter.start(PAUSE_S + 1) is None
    gate.touch()
    ended(starter)
    assert starter.start(PAUSE_S / 2) is None
    assert len(started(words)) == 1
    assert starter.start(PAUSE_S + 1) is None
    ended(starter)
    assert len(started(words)) == 2


@pytest.mark.usefixtures("no_systemd")
def test_a_manager_that_exits_at_once_is_reported_and_retried_later(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = stands_for_python(monkeypatch, tmp_path / "python", "exit 3")
    starter = ManagerStarter(paths)
    assert starter.start(0.0) is None
    ended(starter)
    now = PAUSE_S + 1
    for moment in (now, now + FAILED_S - 1):
        problem = starter.start(moment)
        assert problem is not None
        assert "exit code 3" in problem
        assert str(paths.log_file) in problem
    assert len(started(words)) == 1
    assert starter.start(now + FAILED_S + 1) is None
    ended(starter)
    assert len(started(words)) == 2


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -9 $$", 0)])
def test_a_killed_manager_does_not_count_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, code: int
) -> None:
    """Its clients would be refused for half a minute, where the next one would serve them."""
    stands_for_python(monkeypatch, tmp_path / "python", end)
    monkeypatch.setattr(sys, "argv", ["detached", str(tmp_path / "log")])
    assert detached.main() == code


@pytest.mark.usefixtures("no_systemd")
def test_an_unsafe_log_folder_is_reported(paths: Paths) -> None:
    paths.logs_dir.parent.mkdir(parents=True)
    paths.logs_dir.symlink_to("/tmp")
    problem = ManagerStarter(paths).start(0.0)
    assert problem is not None
    assert str(paths.logs_dir) in problem
