"""Tests of the verbs that the workspace server's command carries out: what it is told, and what it then does."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from manager import exit_codes
from manager.cli import workspace_command
from manager.configuration.paths import Paths
from support.processes.managers.manager_process import lmtb


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that this process would have become, or run."""
    found: list[list[str]] = []

    def become(_: str, command: list[str]) -> None:
        found.append(command)
        raise SystemExit(0)

    def run(command: list[str], **_: Any) -> NoReturn:
        become("", command)
        raise AssertionError("unreachable")

    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(workspace_command.subprocess, "run", run)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "näh er"
    (folder / ".git").mkdir(parents=True)
    (folder / "deep").mkdir()
    return folder


@pytest.mark.parametrize(
    ("typed", "passed_on"),
    [
        (("trust", "DEEP"), ["trust", "--", "ROOT"]),
        (("trust", "DEEP", "--diff"), ["trust", "--diff", "--", "ROOT"]),
        (("trust", "DEEP", "--yes", "--json"), ["trust", "--yes", "--json", "--", "ROOT"]),
        (("trust", "DEEP", "one", "two", "--yes"), ["trust", "--yes", "--", "ROOT", "one", "two"]),
        (("trust", "--yes", "--", "DEEP", "--diff"), ["trust", "--yes", "--", "ROOT", "--diff"]),
        (("trust", "--cwd", "DEEP", "--diff"), ["trust", "--diff", "--", "ROOT"]),
        (("trust", "one", "two", "--cwd", "DEEP", "--yes"), ["trust", "--yes", "--", "ROOT", "one", "two"]),
        (("untrust", "--cwd", "DEEP"), ["untrust", "ROOT"]),
        (("doctor", "env", "--cwd", "DEEP"), ["env", "ROOT"]),
        (("doctor", "--cwd", "DEEP", "env"), ["env", "ROOT"]),
        (("trust", "--list"), ["trust", "--list"]),
        (("untrust", "DEEP"), ["untrust", "ROOT"]),
        (("untrust", "GONE", "--json"), ["untrust", "GONE", "--json"]),
        (("doctor", "env", "DEEP", "--json"), ["env", "ROOT", "--json"]),
        (("secrets", "set", "key", "--stdin"), ["secrets", "set", "--stdin", "--", "key"]),
        (("secrets", "list", "--json"), ["secrets", "list", "--json"]),
        (("secrets", "delete", "--json", "--", "-k"), ["secrets", "delete", "--json", "--", "-k"]),
        (("servers", "login", "--cwd", "DEEP", "--", "-s"), ["login", "--", "ROOT", "-s"]),
    ],
    ids=" ".join,
)
def test_verbs_are_handed_on_with_the_users_folders_and_the_root(
    run: Any,
    executed: list[list[str]],
    paths: Paths,
    project: Path,
    typed: tuple[str, ...],
    passed_on: list[str],
) -> None:
    """Without a manager the root is found by the same rules; a folder that is gone stands for itself."""
    places = {"ROOT": str(project), "DEEP": str(project / "deep"), "GONE": str(project / "gone")}
    run(*(places.get(word, word) for word in typed))
    (command,) = executed
    assert command[1:4] == ["-I", "-m", "workspace_server.command"]
    folders = dict(zip(command[4:10:2], command[5:10:2], strict=True))
    assert folders == {
        "--config-dir": str(paths.config_dir),
        "--state-dir": str(paths.state_dir),
        "--runtime-dir": str(paths.runtime_dir),
    }
    assert command[10:] == [places.get(word, word) for word in passed_on]


@pytest.mark.parametrize("verb", [("trust",), ("untrust",), ("doctor", "env")])
def test_a_folder_that_is_given_twice_is_refused(
    run: Any, executed: list[list[str]], project: Path, verb: tuple[str, ...]
) -> None:
    result = run(*verb, str(project), "--cwd", str(project))
    assert (result.exit_code, executed) == (exit_codes.USAGE, [])
    assert "the folder is given twice" in result.stderr


@pytest.mark.parametrize(
    ("typed", "knows"),
    [(("trust",), True), (("doctor", "env"), True), (("untrust",), False), (("secrets", "list"), False)],
)
def test_programs_are_looked_up_where_the_managers_servers_find_them(
    run: Any, executed: list[list[str]], control: Any, typed: tuple[str, ...], knows: bool
) -> None:
    odd = os.fsdecode(b"/opt/\xff:/usr/bin")
    control.say("GET /status", {"ok": True, "path": odd})
    control.say("POST /resolve", {"ok": True, "match": {"workspaceFolders": ["/srv"]}})
    run(*typed)
    (command,) = executed
    assert (["--path", odd] == command[10:12]) is knows
    assert ("--path" in command) is knows


@pytest.mark.parametrize("answer", [{"ok": True}, {"ok": True, "path": 7}, {"path": "a\0b"}, b"nonsense"])
def test_a_manager_that_does_not_say_its_path_is_no_hindrance(
    run: Any, executed: list[list[str]], control: Any, answer: Any
) -> None:
    control.say("GET /status", answer)
    control.say("POST /resolve", {"ok": True, "match": {"workspaceFolders": ["/srv"]}})
    run("trust")
    assert executed[0][10:] == ["trust", "--", "/srv"]


@pytest.mark.parametrize("verb", [("trust",), ("untrust",), ("doctor", "env"), ("log", "--cwd")])
def test_a_folder_in_no_workspace_is_told_how_to_become_one(run: Any, verb: tuple[str, ...]) -> None:
    result = run(*verb, "/")
    assert result.exit_code == exit_codes.FAILED
    assert result.stderr.startswith("/ is in no workspace\nNext step: go to a project")


def test_a_manager_that_refuses_the_question_is_not_taken_for_an_answer(run: Any, control: Any) -> None:
    control.say("POST /resolve", {"ok": False, "reason": "forbidden"}, 403)
    assert "forbidden" in run("trust", "/").stderr


@pytest.mark.processes
def test_trust_is_given_shown_and_taken_back(environ: dict[str, str], project: Path) -> None:
    """The whole way, as a person types it; no manager runs."""
    tool = project / ".lm-tools-bridge" / "tools" / "greet"
    tool.mkdir(parents=True)
    (tool / "tool.toml").write_text('description = "Greets"\nscript = "run.py"\n')
    (tool / "run.py").write_text("print(1)\n")
    where: dict[str, Any] = {"cwd": project / "deep"}
    unasked = lmtb(environ, "trust", **where, stdin=subprocess.DEVNULL)
    assert (unasked.returncode, "greet" in unasked.stdout) == (exit_codes.FAILED, True)
    assert f"lmtb trust {shlex.quote(str(project))} --yes" in unasked.stderr
    given = lmtb(environ, "trust", "--yes", **where)
    assert (given.returncode, "Trusted" in given.stdout) == (exit_codes.OK, True)
    listed = json.loads(lmtb(environ, "trust", "--list", "--json").stdout)
    assert listed == {"ok": True, "workspaces": [{"root": str(project), "state": "trusted"}]}
    taken = lmtb(environ, "untrust", "--json", **where)
    assert json.loads(taken.stdout) == {"ok": True, "root": str(project), "revoked": [str(project)]}
    assert lmtb(environ, "untrust", **where).returncode == exit_codes.FAILED


@pytest.mark.parametrize("words", [("trust",), ("untrust",)])
def test_an_installation_that_reaches_no_hosts_says_so(
    run: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(workspace_command, "FEATURES", ())
    refused = run(*words, "ssh://box/srv/p")
    assert refused.exit_code != 0
    assert "box/srv/p is on another host, and this installation reaches none" in refused.stderr
