"""What programs of a workspace get of the environment, compared with the shell: enough to find what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.projects.command_home import Home
from workspace_server.command import env as env_verb
from workspace_server.command.env import compare


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("")
    path.chmod(0o755)
    return path


def test_both_sides_are_compared_folder_by_folder_and_name_by_name(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    node, uvx = program(one, "node"), program(two, "uvx")
    shell = {"PATH": f"{one}::{one}", "HOME": "/h", "TOKEN": "t", "LANG": "C"}
    child = {"PATH": f"{two}", "HOME": "/h", "LANG": "de", "LMTB_WORKSPACE": "/ws"}
    found = compare(shell, child)
    assert found["path"] == {"child": [str(two)], "onlyChild": [str(two)], "onlyShell": [str(one)]}
    assert found["programs"]["node"] == {"child": None, "shell": str(node)}
    assert found["programs"]["uvx"] == {"child": str(uvx), "shell": None}
    assert found["programs"]["docker"] == {"child": None, "shell": None}
    assert (found["missing"], found["changed"], found["added"]) == (
        ["TOKEN"],
        ["LANG", "PATH"],
        ["LMTB_WORKSPACE"],
    )


def test_a_program_that_only_the_shell_finds_is_pointed_out(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(env_verb, "PROGRAMS", ("serve-gh",))
    result = replace(home, options=("--path", str(tmp_path / "empty"))).run("env", home.root)
    assert result.exit_code == 0
    assert f"not found (this shell: {home.bin / 'serve-gh'})" in result.output
    assert "Only this shell finds serve-gh" in result.output and ".profile" in result.output
    assert f"{home.bin}   (only in this shell)" in result.output


def test_names_are_shown_and_values_are_not(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "s3cret-canary")
    result = home.run("env", home.root)
    assert "GITHUB_TOKEN" in result.output and "s3cret-canary" not in result.output
    assert home.json("env", home.root)["missing"].count("GITHUB_TOKEN") == 1


def test_a_folder_that_is_none_is_refused(home: Home) -> None:
    assert home.run("env", home.root / "missing").exit_code == 1
