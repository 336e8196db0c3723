"""Tests of the verb completion: the scripts in their shells, and their installation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lm_tools_bridge.machine.private_files import make_private
from manager import exit_codes
from manager.cli import completion as verb
from manager.cli.verbs import cli
from manager.configuration.paths import Paths
from support.processes.timeouts import within


@pytest.fixture
def program(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    """An environment that has `lmtb` on its PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    file = folder / "lmtb"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -m manager "$@"\n')
    file.chmod(0o755)
    return {**environ, "PATH": f"{folder}:{environ['PATH']}"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["lmtb", "tools", "dis"], ["disable"]),
        (["lmtb", "call", "x"], []),
        (["lmtb", "completion", "z"], ["zsh"]),
    ],
)
def test_bash_completes_words_and_says_nothing(
    program: dict[str, str], words: list[str], found: list[str]
) -> None:
    """No manager runs, and none is started."""
    quoted = " ".join(words)
    code = (
        f'eval "$(lmtb completion bash)"; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; '
        '_lmtb_completion lmtb; printf "%s\\n" "${COMPREPLY[@]}"; complete -p lmtb'
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", code],
        env=program, capture_output=True, text=True, timeout=within(30), check=True,
    )  # fmt: skip
    *replies, registered = ended.stdout.splitlines()
    assert ([one for one in replies if one], ended.stderr) == (found, "")
    assert registered == "complete -o nosort -F _lmtb_completion lmtb"
    assert not Path(program["LMTB_RUNTIME_DIR"]).exists()


@pytest.mark.parametrize(
    ("shell", "marks"),
    [
        ("zsh", ["#compdef lmtb", "_LMTB_COMPLETE=zsh_complete lmtb", "compdef _lmtb_completion lmtb"]),
        ("fish", ["_LMTB_COMPLETE=fish_complete", "complete --no-files --command lmtb"]),
    ],
)
def test_scripts_of_other_shells_ask_the_program(run: Any, shell: str, marks: list[str]) -> None:
    text = run("completion", shell).stdout
    assert all(mark in text for mark in marks)
    assert json.loads(run("completion", shell, "--json").stdout) == {
        "ok": True, "shell": shell, "script": text,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/lm-tools-bridge"),
        ("zsh", ".local/share/zsh/site-functions/_lmtb"),
        ("fish", ".config/fish/completions/lmtb.fish"),
    ],
)
def test_scripts_are_installed_where_the_shell_looks_and_removed_with_the_rest(
    run: Any, environ: dict[str, str], shell: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    place = Path(environ["HOME"], file)
    asked = run("completion", shell, "--install")
    assert (asked.exit_code, place.exists()) == (exit_codes.FAILED, False)
    assert f"+++ ~/{file}" in asked.stdout and "--yes" in asked.stderr
    done = run("completion", shell, "--install", "--yes")
    assert done.exit_code == exit_codes.OK and "Next step" in done.stdout
    assert "complet" in place.read_text()
    again = json.loads(run("completion", shell, "--install", "--json").stdout)
    assert again["result"] == "unchanged" and str(place) in again["files"]
    removed = json.loads(run("uninstall", "--yes", "--json").stdout)
    assert (removed["removed"], place.exists()) == (["completion"], False)


def test_a_script_that_cannot_be_written_leaves_the_old_one(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = json.loads(run("completion", "bash", "--install", "--yes", "--json").stdout)["files"]
    file = Path(installed[0])
    file.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verb.private_files, "write", full)
    result = run("completion", "bash", "--install", "--yes")
    assert result.exit_code == exit_codes.FAILED
    assert f"{file}: No space left on device" in result.stderr
    assert file.read_text() == "old"


INSPECTED: Mapping[str, Any] = {
    "tools": [
        {"name": "git__status", "state": "callable", "description": "Shows changes. All of them."},
        {"name": "git__push", "state": "disabled"},
        {"name": "lm_readFile", "state": "callable"},
    ],
    "sources": [{"id": "stdio:git", "state": "ready"}, {"id": "builtin", "state": "ready"}],
    "issues": [],
}


def completed(*words: str, begun: str = "") -> set[str]:
    """What bash is told for these words and the beginning of the next one."""
    environ = {"COMP_WORDS": " ".join(["lmtb", *words, begun]), "COMP_CWORD": str(len(words) + 1)}
    ended = CliRunner().invoke(
        cli, [], env={**environ, "_LMTB_COMPLETE": "bash_complete"}, complete_var="_LMTB_COMPLETE"
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    return {line.partition(",")[2] for line in ended.stdout.split()}


@pytest.fixture
def manager(control: Any) -> Any:
    """A manager whose server for this folder runs."""
    control.say("POST /resolve", {"ok": True, "match": {"state": "ready", "workspaceFolders": ["/srv"]}})
    control.say("POST /inspect", {"ok": True, **INSPECTED})
    return control


@pytest.mark.usefixtures("manager")
@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        (["call"], "", {"git__status", "lm_readFile"}),
        (["call"], "git", {"git__status"}),
        (["call", "--cwd", "/srv"], "lm_", {"lm_readFile"}),
        (["tools", "deny"], "git", {"git__status", "git__push"}),
        (["tools", "why"], "x", set()),
        (["servers", "restart"], "", {"git", "builtin"}),
        (["log", "--server"], "g", {"git"}),
        (["client", "add"], "cu", {"cursor"}),
        (["client", "remove", "cursor"], "co", {"codex", "continue", "copilot-cli"}),
        (["tools"], "dis", {"disable"}),
        ([], "st", {"stop", "status"}),
        (["stop"], "--ke", {"--keep-servers"}),
    ],
)
def test_names_that_begin_so_are_suggested(words: list[str], begun: str, found: set[str]) -> None:
    assert completed(*words, begun=begun) == found


def test_the_folder_is_that_of_the_line(manager: Any) -> None:
    completed("tools", "--cwd", "/srv/p", "why")
    completed("call", "--cwd", "/srv/q")
    assert [asked["cwd"] for _, asked in manager.asked] == ["/srv/p", "/srv/p", "/srv/q", "/srv/q"]


def test_a_server_that_does_not_run_is_not_asked_which_would_start_it(manager: Any) -> None:
    manager.say("POST /resolve", {"ok": True, "match": {"state": "stopped"}})
    assert completed("call") == set()
    assert [target for target, _ in manager.asked] == ["POST /resolve"]


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\n{", ({"ok": True, "match": 7})])
def test_an_answer_of_no_use_is_no_suggestion(control: Any, answer: Any) -> None:
    control.say("POST /resolve", answer)
    assert completed("call") == set()


@pytest.mark.usefixtures("environ")
def test_without_a_manager_there_are_none() -> None:
    assert completed("call") == completed("servers", "restart") == completed("log", "--server") == set()


def test_workspaces_with_a_log_are_suggested(paths: Paths) -> None:
    make_private(paths.logs_dir)
    for name in ("manager", "template", "proj-12", "proj-12.old"):
        (paths.logs_dir / f"{name}.log").touch()
    assert completed("log", "--workspace") == {"proj-12"}


def test_secrets_are_suggested_by_name(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = json.dumps({"ok": True, "keys": ["GITHUB", "NPM"]})
    command = ["/bin/sh", "-c", f"echo '{listed}'"]
    monkeypatch.setattr("manager.cli.workspace_command.command_line", lambda *_: command)
    assert completed("secrets", "delete", begun="G") == {"GITHUB"}
