"""Tests of the verb log: the last lines, the lines that follow, and what a person makes of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from lm_tools_bridge.machine.private_files import make_private
from manager import exit_codes
from manager.cli import log
from manager.configuration.paths import Paths
from manager.routing.matching import workspace_id
from support.processes.timeouts import within


def line(event: str, level: str = "info", **fields: Any) -> str:
    return json.dumps({**fields, "event": event, "level": level, "timestamp": "T"}) + "\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def file(paths: Paths, project: Path) -> Path:
    """The log of the workspace, which does not exist yet."""
    make_private(paths.state_dir)
    paths.logs_dir.mkdir()
    return paths.logs_dir / f"{workspace_id(str(project))}.log"


LINES = [
    line("started", pid=7),
    "Traceback \x1b[2J\n",
    line("source_started", source="stdio:gh"),
    line("call", source="remote:gh2"),
]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ["T info started pid=7", "Traceback \\x1b[2J", "T info source_started source=stdio:gh",
              "T info call source=remote:gh2"]),
        (("-n", "1"), ["T info call source=remote:gh2"]),
        (("-n", "0"), []),
        (("--server", "gh"), ["T info source_started source=stdio:gh"]),
        (("--server", "remote:gh2", "-n", "5"), ["T info call source=remote:gh2"]),
    ],
)  # fmt: skip
def test_lines_are_shown_oldest_first(
    run: Any, file: Path, project: Path, options: tuple[str, ...], shown: list[str]
) -> None:
    """What a program wrote cannot act on the terminal."""
    file.write_text("".join(LINES))
    assert run("log", "--cwd", str(project), *options).stdout.splitlines() == shown


@pytest.mark.parametrize("option", ["--project", "--workspace"])
def test_a_project_is_named_as_in_other_verbs(run: Any, file: Path, project: Path, option: str) -> None:
    file.write_text("".join(LINES))
    name = workspace_id(str(project))
    assert run("log", option, name, "-n", "1").stdout == "T info call source=remote:gh2\n"


@pytest.mark.parametrize(
    ("level", "shown"), [("debug", 4), ("warning", 3), ("error", 2)], ids=["all", "warnings", "errors"]
)
def test_a_level_leaves_out_what_is_less_but_no_traceback(
    run: Any, paths: Paths, level: str, shown: int
) -> None:
    make_private(paths.logs_dir)
    events = [line("ready"), line("low", "warning"), line("down", "error"), "Traceback\n"]
    paths.log_file.write_text("".join(events))
    assert len(run("log", "--level", level).stdout.splitlines()) == shown


def test_without_a_workspace_it_is_the_log_of_the_manager(run: Any, paths: Paths, file: Path) -> None:
    file.write_text(line("of a server"))
    nothing = run("log", "--json")
    assert json.loads(nothing.stdout)["error"]["reason"] == "no_log"
    assert "lmtb up" in nothing.stderr
    paths.log_file.write_text(line("ready", address="a"))
    assert run("log").stdout == "T info ready address=a\n"


@pytest.mark.parametrize(
    "words", [["--workspace", "../x"], ["--workspace", "a-1", "--cwd", "."], ["--level", "x"]]
)
def test_what_names_no_log_is_wrong_usage(run: Any, words: list[str]) -> None:
    assert run("log", *words).exit_code == exit_codes.USAGE


def test_a_workspace_can_be_named_by_its_id(run: Any, file: Path) -> None:
    file.write_text(line("started"))
    assert run("log", "--workspace", file.stem).stdout == "T info started\n"


@pytest.mark.parametrize("count", [26, 49, 51])
def test_the_last_lines_are_shown_however_many_there_are(
    run: Any, file: Path, project: Path, count: int
) -> None:
    file.write_text("".join(line("said", number=number) for number in range(count)))
    shown = run("log", "--cwd", str(project)).stdout.splitlines()
    assert len(shown) == min(count, 50)
    assert shown[-1].endswith(f"number={count - 1}")


def test_json_is_an_object_per_line(run: Any, file: Path, project: Path) -> None:
    file.write_text("".join(LINES))
    found = [json.loads(one) for one in run("log", "--json", "--cwd", str(project)).stdout.splitlines()]
    assert found[1] == {"text": "Traceback \x1b[2J"}
    assert found[2]["source"] == "stdio:gh"


def test_nothing_written_is_said(run: Any, file: Path, project: Path) -> None:
    missing = run("log", "--cwd", str(project))
    assert missing.exit_code == exit_codes.FAILED
    assert "no log yet" in missing.stderr and "lmtb log" in missing.stderr
    file.write_text("".join(LINES))
    silent = run("log", "--server", "nobody", "--cwd", str(project))
    assert (silent.exit_code, silent.stderr) == (
        exit_codes.OK,
        'no lines yet from "nobody"; there are lines from gh, gh2\n',
    )


def test_a_long_file_is_read_from_its_end_and_never_shows_half_a_line(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_READ", 25)
    file.write_text("".join(f"line {n:04}\n" for n in range(100)))
    assert log.Reader(file).tail() == ["line 0098", "line 0099"]


def test_a_line_is_shown_once_and_when_it_is_whole(file: Path) -> None:
    file.write_text("one\nhal")
    reader = log.Reader(file)
    assert reader.tail() == ["one"]
    with file.open("a") as opened:
        opened.write("f\nthree\n")
    following = reader.following()
    assert [next(following), next(following)] == ["half", "three"]


@pytest.mark.parametrize("change", ["replaced", "cut", "made"])
def test_following_goes_on_in_a_new_file(file: Path, change: str) -> None:
    if change != "made":
        file.write_text("a long line of before\n")
    reader = log.Reader(file)
    reader.tail()
    if change == "replaced":
        file.rename(file.with_suffix(".old"))
    file.write_text("new\n")
    assert next(reader.following()) == "new"


@contextmanager
def followed(environ: dict[str, str], project: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """`lmtb log -f` in a process of its own, ended at the end."""
    command = [sys.executable, "-I", "-m", "manager", "log", "-f", "--cwd", str(project)]
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(within(10), process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        yield process, process.stdout
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def test_following_shows_what_is_written_until_ctrl_c(
    environ: dict[str, str], file: Path, project: Path
) -> None:
    file.write_text(LINES[0])
    with followed(environ, project) as (process, output):
        assert output.readline() == "T info started pid=7\n"
        with file.open("a") as opened:
            opened.write(LINES[2])
        assert output.readline() == "T info source_started source=stdio:gh\n"
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=within(10))
    assert (process.returncode, rest, said) == (exit_codes.OK, "", "")


@pytest.mark.parametrize("written", [LINES[2] * 2, ""], ids=["in use", "silent"])
def test_following_ends_quietly_when_its_output_is_closed(
    environ: dict[str, str], file: Path, project: Path, written: str
) -> None:
    file.write_text(LINES[0])
    with followed(environ, project) as (process, output):
        output.readline()
        output.close()
        process.stdout = None
        with file.open("a") as opened:
            opened.write(written)
        _, said = process.communicate(timeout=within(10))
    assert process.returncode not in {0, -9}
    assert "Traceback" not in said


def test_a_workspace_can_be_named_without_its_hash(run: Any, file: Path) -> None:
    file.write_text(line("started"))
    assert run("log", "--workspace", file.stem.rpartition("-")[0]).stdout == "T info started\n"
