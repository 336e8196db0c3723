"""Tests of the verb completion: the scripts in their shells, and their installation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manager import exit_codes
from manager.cli import completion as verb
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
