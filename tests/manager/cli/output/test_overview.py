"""Tests `lmtb status` without click: the output and the errors are those of the verb."""

from __future__ import annotations

import itertools
import ntpath
import os
import posixpath
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from manager import exit_codes
from manager.cli import main
from manager.cli.output import overview
from support.projects.sample_status import STATUS

HEAVY = {
    "click", "rich", "dataclasses", "inspect", "shutil", "tempfile", "subprocess", "asyncio", "logging",
}  # fmt: skip


def lmtb(environ: dict[str, str], *words: str, program: str = "", **options: Any) -> Any:
    """The command line in a process of its own; afterwards it runs `program`."""
    code = (
        f"import sys\nsys.argv = ['lmtb', *{words!r}]\nfrom manager.cli import main\n"
        f"try:\n    main()\nfinally:\n    sys.stdout.flush()\n    {program or 'pass'}"
    )
    given = {"capture_output": True, "text": True, "timeout": 30} | options
    return subprocess.run([sys.executable, "-I", "-c", code], env=environ, check=False, **given)


def test_it_says_what_the_verb_says(environ: dict[str, str], control: Any, run: Any) -> None:
    control.say("GET /mcp/status", STATUS)
    ended = lmtb(environ, "status")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == run("status").stdout
    assert "busy-2" in ended.stdout


def test_worktrees_stand_below_their_repository() -> None:
    roots = {"x-1": "/x", "shop-2": "/shop", "tree-3": "/trees/tree"}
    rows = [
        {
            "workspace": name,
            "root": root,
            "state": "ready",
            **({} if root == "/x" else {"repository": "/shop/.git"}),
        }
        for name, root in [*reversed(roots.items())]
    ]
    table = overview.workspace_table(rows)
    assert [row[0] for row in table.rows] == ["shop-2", "└ tree-3", "x-1"]


def test_it_imports_not_even_click(environ: dict[str, str], control: Any) -> None:
    """Half of the verb's processor time was click's."""
    control.say("GET /mcp/status", STATUS)
    program = "print('loaded', *sys.modules)"
    said = lmtb(environ, "status", program=program).stdout.splitlines()[-1].split()
    assert said[0] == "loaded"
    assert set(said) & HEAVY == set()
    assert "click" in lmtb(environ, "workspaces", program=program).stdout.split()


@pytest.mark.parametrize("words", [("status", "--help"), ("status", "--nonsense"), ("status", "more")])
def test_everything_but_the_bare_word_is_clicks(environ: dict[str, str], run: Any, words: Any) -> None:
    ended, said = lmtb(environ, *words), run(*words)
    assert ended.returncode == said.exit_code
    assert ended.stdout.partition("\n")[2] == said.stdout.partition("\n")[2]


def test_where_no_manager_runs_the_verb_says_so(environ: dict[str, str], run: Any) -> None:
    ended, said = lmtb(environ, "status"), run("status")
    assert ended.returncode == said.exit_code == exit_codes.NO_MANAGER
    assert ended.stderr == said.stderr
    assert "lmtb up" in ended.stderr


@pytest.mark.parametrize("status", [b"", b"HTTP/1.1 200 X\r\n\r\nno json", (500, {"error": "broken"})])
def test_an_answer_that_cannot_be_used_is_explained(
    environ: dict[str, str], control: Any, run: Any, status: Any
) -> None:
    control.answers["GET /mcp/status"] = status
    ended, said = lmtb(environ, "status"), run("status")
    assert ended.returncode == said.exit_code == exit_codes.FAILED
    assert ended.stderr == said.stderr
    assert "lmtb doctor" in ended.stderr


def test_an_impossible_folder_is_explained(environ: dict[str, str]) -> None:
    ended = lmtb(environ | {"LMTB_RUNTIME_DIR": "relative"}, "status")
    assert ended.returncode == exit_codes.HOPELESS
    assert "LMTB_RUNTIME_DIR" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_reader_who_is_gone_is_no_traceback(environ: dict[str, str], control: Any) -> None:
    control.say("GET /mcp/status", STATUS)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = lmtb(environ, "status", capture_output=False, stdout=writing, stderr=subprocess.PIPE)
        other = lmtb(environ, "workspaces", capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (other.returncode, other.stderr)


def test_an_interruption_is_said_in_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["lmtb", "status"])
    monkeypatch.setattr(overview, "overview", interrupted)
    monkeypatch.setattr(overview.Control, "get", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "\ninterrupted\nNext step: run it again\n"


@pytest.mark.parametrize(
    ("system", "folder", "home", "expected"),
    [
        (posixpath, "/a/b", "/home/me", ["/a/b", "/a"]),
        (posixpath, "/", "/home/me", []),
        (posixpath, "/home/me/p", "/home/me", ["/home/me/p"]),
        (ntpath, "Z:\\a\\b", "C:\\Users\\me", ["Z:\\a\\b", "Z:\\a"]),
        (ntpath, "Z:\\", "C:\\Users\\me", []),
        (ntpath, "\\\\server\\share\\p", "C:\\Users\\me", ["\\\\server\\share\\p"]),
    ],
)  # fmt: skip
def test_files_are_looked_for_up_to_the_root_of_a_drive_and_not_for_ever(
    system: ModuleType, folder: str, home: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: folder)
    monkeypatch.setattr(system, "expanduser", lambda _: home)
    monkeypatch.setattr(os, "path", system)
    folders = overview._folders()
    try:
        assert list(itertools.islice(folders, 10)) == expected
    finally:
        monkeypatch.undo()
