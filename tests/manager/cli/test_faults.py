"""Tests how a verb ends that the system or the user stops: one line that says what happened, no traceback."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.processes.timeouts import within

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", [["--help"], ["client", "list"], ["client", "list", "--json"]])
def test_output_to_a_full_disk_is_one_failure(environ: dict[str, str], words: list[str]) -> None:
    with FULL.open("w") as output:
        ended = subprocess.run(
            [sys.executable, "-I", "-m", "manager", *words],
            env={**environ, "LMTB_HTTP_PORT": "48123"}, stdout=output, stderr=subprocess.PIPE, text=True, timeout=within(10), check=False,
        )  # fmt: skip
    said = "No space left on device\nNext step: check the disk, and where the output goes\n"
    assert (ended.returncode, ended.stderr) == (1, said)


def test_a_question_without_an_answer_ends_with_the_next_step(environ: dict[str, str]) -> None:
    """The end of the input, as Ctrl-D at a terminal."""
    Path(environ["LMTB_STATE_DIR"], "logs").mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, "-I", "-m", "manager", "uninstall"],
        env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within(10), check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "this removes files, and nobody answered\nNext step: repeat it with --yes\n"
    assert os.path.isdir(f"{environ['LMTB_STATE_DIR']}/logs")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has a home folder always")
@pytest.mark.parametrize(
    "words", [["status"], ["completion", "bash", "--install", "--yes"], ["client", "list"]]
)
def test_a_user_without_a_home_is_told_to_set_one(words: list[str]) -> None:
    run = "import os, sys; from manager.cli import main; sys.argv = ['lmtb', *sys.argv[1:]]; main()"
    nobody = "import os; os.getuid = lambda: 4_000_000_000; "
    ended = subprocess.run(
        [sys.executable, "-I", "-c", nobody + run, *words],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=within(10), check=False,
    )  # fmt: skip
    assert ended.stderr == (
        "HOME is not set, and the user database names no home folder\nNext step: set HOME to your home folder\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("verb", ["tools", "trust"])
def test_a_folder_whose_name_is_not_utf8_has_to_be_renamed(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    folder.mkdir()
    monkeypatch.chdir(folder)
    said = run(verb).stderr
    assert "is not UTF-8\nNext step: rename the folder\n" in said


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_ctrl_c_at_the_question_of_trust_is_told_once(environ: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "serve-a"}}}')
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-I", "-m", "manager", "trust", str(project)], environ)
    said = b""
    with suppress(OSError):  # the end of a pseudo-terminal
        while True:
            if select.select([terminal], [], [], 0.3)[0]:
                said += os.read(terminal, 4096)
            elif said.endswith(b"[y/N]: "):  # again where the line editor, just starting, dropped it
                os.write(terminal, b"\x03")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert said.count(b"interrupted") == 1
