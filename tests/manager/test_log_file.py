"""Tests of the manager's log file: what is written to it, when, and what happens when its folder is gone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager import log
from support.processes.managers.logging_state import restored_logging


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with restored_logging():
        log.configure("info", "console")
        yield


def events(file: Path) -> list[str]:
    return [json.loads(line)["event"] for line in file.read_text().splitlines()]


def test_lines_are_in_the_file_while_the_manager_serves(tmp_path: Path) -> None:
    """As JSON, whatever standard error gets; secrets are hidden."""
    file = tmp_path / "manager.log"
    log.logger().info("before")
    with log.log_file(file):
        log.logger().info("ready", api_key="s3cret")
        log.logger().error("failed", exc_info=ValueError("why"))
    log.logger().info("after")
    assert events(file) == ["ready", "failed"]
    text = file.read_text()
    assert "s3cret" not in text and "ValueError: why" in text
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_is_written_twice_where_standard_error_is_the_file(tmp_path: Path) -> None:
    file = tmp_path / "manager.log"
    before = os.dup(2)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 2)
    try:
        with log.log_file(file):
            log.logger().info("once")
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(descriptor)
    assert "once" not in file.read_text()


def test_a_folder_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with log.log_file(folder / "manager.log"):
        shutil.rmtree(folder)
        log.logger().info("nobody reads this")
    assert not folder.exists()
