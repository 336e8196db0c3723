"""Tests that long logs are set aside while programs write them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manager import housekeeping, log
from manager.housekeeping import FLOOD_S, LogRotation
from support.processes.managers.logging_state import restored_logging


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "MAX_LOG_BYTES", 10)


@pytest.fixture
def told() -> Iterator[Callable[[], int]]:
    """How often a flood was told."""
    with restored_logging():
        log.configure("info", "json")
        log.recent_lines.clear()
        yield lambda: sum("[log.flooded]" in line for line in log.recent_lines)


def test_a_long_log_is_set_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "w-1.log"
    writer = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(writer, b"a long first line\n")
        LogRotation(tmp_path).run()
        os.write(writer, b"next\n")
    finally:
        os.close(writer)
    assert file.read_bytes() == b"next\n"
    assert (tmp_path / "w-1.old.log").read_bytes() == b"a long first line\n"
    assert (tmp_path / "w-1.old.log").stat().st_mode & 0o777 == 0o600


def test_a_short_log_and_an_old_one_stay(tmp_path: Path) -> None:
    for name, text in {"w-1.log": "short", "w-2.old.log": "what was set aside before"}.items():
        (tmp_path / name).write_text(text)
    LogRotation(tmp_path).run()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["w-1.log", "w-2.old.log"]


def test_a_link_in_the_place_of_the_old_log_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "w-1.old.log").symlink_to(target)
    (tmp_path / "w-1.log").write_text("a long first line\n")
    LogRotation(tmp_path).run()
    assert target.read_text() == "mine"


def test_a_flood_is_told_once(tmp_path: Path, told: Callable[[], int]) -> None:
    now = 0.0
    rotation = LogRotation(tmp_path, lambda: now)

    def fill() -> None:
        (tmp_path / "w-1.log").write_text("a long first line\n")
        rotation.run()

    fill()
    now += FLOOD_S
    fill()
    assert told() == 0
    for _ in range(3):
        now += 1
        fill()
    assert told() == 1
