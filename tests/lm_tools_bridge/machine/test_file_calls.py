"""Files that other processes have open are appended to and replaced."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lm_tools_bridge.machine import file_calls

LINES = 1_000
APPENDS = (
    "import os, sys\n"
    "from pathlib import Path\n"
    "from lm_tools_bridge.machine import file_calls\n"
    "for number in range(int(sys.argv[3])):\n"
    "    file = file_calls.open_to_append(Path(sys.argv[1]))\n"
    "    os.write(file, f'{sys.argv[2]} {number}\\n'.encode())\n"
    "    os.close(file)\n"
)


def test_no_line_of_two_writers_is_lost(tmp_path: Path) -> None:
    log = tmp_path / "log"
    root = str(Path(file_calls.__file__).parents[2])
    writers = [
        subprocess.Popen([sys.executable, "-c", APPENDS, str(log), name, str(LINES)], cwd=root)
        for name in ("a", "b")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    expected = {f"{name} {number}".encode() for name in ("a", "b") for number in range(LINES)}
    assert sorted(log.read_bytes().split(b"\n")[:-1]) == sorted(expected)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_a_link_is_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        file_calls.open_to_append(tmp_path / "link")
    assert not (tmp_path / "target").exists()


def test_a_file_that_is_appended_to_can_be_moved_away(tmp_path: Path) -> None:
    descriptor = file_calls.open_to_append(tmp_path / "log")
    os.write(descriptor, b"old\n")
    file_calls.replace(tmp_path / "log", tmp_path / "log.1")
    os.write(descriptor, b"late\n")
    os.close(descriptor)
    assert (tmp_path / "log.1").read_bytes() == b"old\nlate\n"


class Held:
    """A file that another program has open for a number of attempts, as Windows reports it."""

    def __init__(self, attempts: int, winerror: int) -> None:
        self.attempts, self.winerror, self.clock = attempts, winerror, 0.0
        self._replace = os.replace

    def __call__(self, source: Path, target: Path, **folders: int | None) -> None:
        self.attempts -= 1
        if self.attempts >= 0:
            error = PermissionError(errno.EACCES, "denied")
            error.winerror = self.winerror
            raise error
        self._replace(source, target, **folders)

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


def files(folder: Path) -> tuple[Path, Path]:
    new, old = folder / "new", folder / "old"
    new.write_text("new")
    old.write_text("old")
    return new, old


@pytest.mark.parametrize("winerror", [5, 32, 33])
def test_a_file_that_a_scanner_has_open_is_replaced_when_it_lets_go(
    tmp_path: Path, winerror: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = files(tmp_path)
    held = Held(9, winerror)
    monkeypatch.setattr(os, "replace", held)
    file_calls.replace(new, old, sleep=held.sleep, now=lambda: held.clock)
    assert old.read_text() == "new"
    assert held.clock < file_calls.REPLACE_WAIT_S


def test_after_a_second_the_reason_is_told_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = files(tmp_path)
    held = Held(10_000, 32)
    monkeypatch.setattr(os, "replace", held)
    with pytest.raises(OSError, match=r"another program has the file open.*old") as caught:
        file_calls.replace(new, old, sleep=held.sleep, now=lambda: held.clock)
    assert caught.value.errno == errno.EBUSY
    assert held.clock == pytest.approx(file_calls.REPLACE_WAIT_S, abs=0.02)
    assert (new.read_text(), old.read_text()) == ("new", "old")


def test_other_failures_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_calls.replace(tmp_path / "missing", tmp_path / "old", sleep=lambda _: pytest.fail("waited"))
