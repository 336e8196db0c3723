"""Switching tools and deciding about them: in the right file, and leaving the rest of it alone."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from support.projects.command_home import Home


def user_file(home: Home) -> dict[str, Any]:
    return tomllib.loads((home.config_dir / "workspace.toml").read_text())


@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
def test_a_decision_about_a_tool_is_kept(home: Home, decision: str) -> None:
    home.config_dir.mkdir()
    (home.config_dir / "workspace.toml").write_text("# mine\n[approvals]\nother = 'ask'\n")
    assert home.run("tools", decision, "gh__create").exit_code == 0
    assert user_file(home)["approvals"] == {"other": "ask", "gh__create": decision}
    assert (home.config_dir / "workspace.toml").read_text().startswith("# mine\n")


def test_a_tool_is_switched_off_and_on_in_the_users_file(home: Home) -> None:
    assert home.run("tools", "disable", "gh__list", "--root", home.root).exit_code == 0
    assert user_file(home)["tools"]["disabledDelta"] == ["gh__list"]
    result = home.run("tools", "enable", "gh__list", "--root", home.root)
    assert result.exit_code == 0 and "lmtb trust" not in result.output
    assert "disabledDelta" not in user_file(home)["tools"]
    assert "gh__list" in user_file(home)["tools"]["enabledDelta"]


def test_a_tool_is_taken_from_the_choice_of_tools_and_put_back(home: Home) -> None:
    done = home.run("tools", "unexpose", "gh__list", "--root", home.root, "--json")
    assert json.loads(done.stdout)["exposed"] is False
    assert user_file(home)["tools"] == {"unexposedDelta": ["gh__list"]}
    done = home.run("tools", "expose", "gh__list", "--root", home.root)
    assert "gh__list is exposed: it can be enabled" in done.output
    assert user_file(home)["tools"] == {"exposedDelta": ["gh__list"]}


def test_a_tool_that_every_project_exposes_is_not_taken_from_the_choice(home: Home) -> None:
    done = home.run("tools", "unexpose", "lm_findFiles", "--root", home.root)
    assert done.exit_code == 1 and "lmtb tools disable lm_findFiles" in done.output
    assert not home.config_dir.exists()


@pytest.mark.parametrize("verb", ["enable", "expose"])
def test_where_the_workspace_decides_switching_on_waits_for_trust(home: Home, verb: str) -> None:
    home.write(".lm-tools-bridge/workspace.toml", "useWorkspaceSettings = true\n")
    result = home.run("tools", verb, "gh__list", "--root", home.root)
    assert f"lmtb trust {home.root}" in result.output
    assert not home.config_dir.exists()
    assert home.states() == {"settings": "new"}


def test_a_tool_nobody_can_have_is_refused(home: Home) -> None:
    result = home.run("tools", "enable", "run_in_terminal", "--root", home.root)
    assert result.exit_code == 1 and "never offered" in result.output


def test_a_broken_file_is_left_alone(home: Home) -> None:
    home.config_dir.mkdir()
    file = home.config_dir / "workspace.toml"
    file.write_text("[approvals\n")
    result = home.run("tools", "allow", "x")
    assert result.exit_code == 1
    assert str(file) in result.stderr and "Next step:" in result.stderr
    assert file.read_text() == "[approvals\n"


def test_a_visibility_is_chosen_for_one_workspace_and_taken_back(home: Home) -> None:
    home.config_dir.mkdir()
    (home.config_dir / "workspace.toml").write_text("# mine\n[approvals]\nother = 'ask'\n")
    for words in (["gh__list", "ondemand"], ["gh__get", "always"], ["--source", "stdio:gh", "always"]):
        done = home.run("tools", "visibility", *words, "--root", home.root)
        assert done.exit_code == 0, done.output
    assert user_file(home)["visibility"] == {
        str(home.root): {
            "tools": {"gh__list": "ondemand", "gh__get": "always"},
            "sources": {"stdio:gh": "always"},
        }
    }
    done = home.run("tools", "visibility", "gh__list", "default", "--root", home.root, "--json")
    assert json.loads(done.stdout) == {
        "ok": True,
        "tool": "gh__list",
        "visibility": None,
        "root": str(home.root),
        "file": str(home.config_dir / "workspace.toml"),
    }
    assert user_file(home)["visibility"][str(home.root)]["tools"] == {"gh__get": "always"}
    assert (home.config_dir / "workspace.toml").read_text().startswith("# mine\n")


@pytest.mark.parametrize("text", [None, "# mine\n"])
def test_a_choice_that_there_is_not_is_not_taken_back(home: Home, text: str | None) -> None:
    file = home.config_dir / "workspace.toml"
    if text is not None:
        home.config_dir.mkdir()
        file.write_text(text)
    done = home.run("tools", "visibility", "gh__list", "default", "--root", home.root)
    assert done.output == f"There is no choice of yours for gh__list in {home.root}; nothing was changed.\n"
    assert (file.read_text() if file.exists() else None) == text


def test_a_visibility_that_does_not_exist_is_refused_with_those_that_do(home: Home) -> None:
    done = home.run("tools", "visibility", "x", "hidden", "--root", home.root)
    assert done.exit_code == 2
    assert all(word in done.stderr for word in ("'hidden'", "native", "ondemand", "always", "default"))
    assert not home.config_dir.exists()


def test_a_folder_whose_name_is_not_unicode_is_refused(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    done = home.run("tools", "visibility", "x", "always", "--root", folder)
    assert done.exit_code == 1
    assert "cannot be changed" in done.stderr


@pytest.mark.parametrize(
    "verb", ["allow", "ask", "enable", "expose", "unexpose", "deny", "disable", "visibility"]
)
def test_a_program_that_a_server_started_changes_nothing(
    home: Home, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as marked:
        marked.setattr("lm_tools_bridge.machine.own_children.is_own_child", lambda pid: pid == os.getpid())
        root = ["--root", home.root] if verb not in {"allow", "ask", "deny"} else []
        word = ["ondemand"] if verb == "visibility" else []
        done = home.run("tools", verb, "x", *word, *root)
    assert done.exit_code == 1
    assert "in a terminal of yours" in done.output
    assert not (home.config_dir / "workspace.toml").exists()
