"""Which language servers a project has, where from, and why others do not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.projects.command_home import Home, make_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return make_home(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def no_servers_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lm_tools_bridge.code_intelligence.kinds.programs.OWN_SCRIPTS", str(tmp_path / "scripts")
    )


def server(home: Home, name: str) -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = [one for one in home.json("languages", home.root)["servers"] if one["server"] == name]
    return found


def test_a_server_of_the_user_is_told_with_its_version(home: Home) -> None:
    home.write("pkg/a.py", "")
    program = home.program("ty")
    program.write_text("#!/bin/sh\necho 'ty 0.0.105 (abc)'\n")
    found = server(home, "ty")
    assert (found["state"], found["origin"], found["version"]) == ("installed", "PATH", "0.0.105")
    assert (found["program"], found["languages"]) == (str(program), ["python"])
    assert found["roles"] == ["symbols", "diagnostics"]
    assert found["reason"] is None


def test_a_missing_server_is_told_with_what_to_install(home: Home) -> None:
    home.write("a.go", "")
    found = server(home, "gopls")
    assert (found["state"], found["program"]) == ("missing", None)
    assert found["reason"].endswith("to install it: lmtb languages install gopls")
    assert found["install"] == "gopls"


def test_a_server_whose_other_program_is_missing_is_told_with_that(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home.bin))
    home.write("a.go", "")
    home.program("gopls")
    home.run("trust", home.root, "--yes")
    found = server(home, "gopls")
    assert (found["state"], found["install"]) == ("missing", None)
    assert "`go` was not found" in found["reason"]


def test_what_waits_for_trust_is_not_asked_for_its_version(home: Home) -> None:
    home.write("a.py", "")
    program = home.write(".venv/bin/ty", f"#!/bin/sh\ntouch {home.root}/ran\n")
    program.chmod(0o755)
    found = server(home, "ty")
    assert (found["state"], found["version"]) == ("pending_trust", None)
    assert f"lmtb trust {home.root}" in found["reason"]
    assert not (home.root / "ran").exists()
    home.run("trust", home.root, "--yes")
    assert server(home, "ty")["state"] == "installed"


def test_a_program_that_does_not_tell_its_version_delays_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.languages_command.TIME_S", 0.2)
    home.write("a.py", "")
    home.program("ty").write_text("#!/bin/sh\nexec sleep 30\n")
    found = server(home, "ty")
    assert (found["state"], found["version"]) == ("installed", None)


def test_no_program_is_started_without_versions(home: Home) -> None:
    home.write("a.py", "")
    home.program("ty").write_text(f"#!/bin/sh\ntouch {home.root}/ran\n")
    home.json("languages", home.root, "--no-versions")
    assert not (home.root / "ran").exists()


def test_switched_off_servers_are_not_listed(home: Home) -> None:
    home.write("a.py", "")
    home.write(".lm-tools-bridge/workspace.toml", "[language_servers]\nenabled = false\n")
    found = home.json("languages", home.root)
    assert (found["enabled"], found["servers"]) == (False, [])


def test_one_server_is_proposed_where_none_is_installed(home: Home) -> None:
    home.write("a.py", "")
    found = home.json("languages", home.root)["servers"]
    missing = [one["server"] for one in found if one["state"] == "missing"]
    assert missing == ["ty", "ruff"]


def test_outlines_are_told_for_languages_without_a_server_only(home: Home) -> None:
    home.write("a.py", "")
    home.write("a.lua", "")
    home.program("ty")
    found = server(home, "tree-sitter")
    assert (found["languages"], found["roles"]) == (["lua"], ["symbols"])


def test_a_better_server_that_waits_for_trust_is_told(home: Home) -> None:
    home.write("a.py", "")
    home.write("pyproject.toml", "[tool.basedpyright]\n")
    home.program("basedpyright-langserver")
    home.program("ty")
    assert server(home, "basedpyright")["state"] == "pending_trust"
    assert server(home, "ty")["state"] == "installed"


def test_a_server_of_another_typescript_is_told_with_what_it_may_lack(home: Home) -> None:
    home.write("a.ts", "")
    home.write("package.json", '{"devDependencies": {"typescript": "~5.6"}}')
    package = home.program("tsc").parent.parent
    (package / "package.json").write_text('{"version": "7.0.2"}')
    row = server(home, "typescript")
    assert row["state"] == "installed"
    assert "the project asks for TypeScript ~5.6, and this is TypeScript 7" in row["reason"]
    assert row["install"] == "typescript-language-server"


def test_the_environment_of_python_is_told_or_that_there_is_none(home: Home) -> None:
    home.write("a.py", "import click\n")
    home.program("ty")
    assert home.json("languages", home.root)["pythonEnvironment"] is None
    reason = server(home, "ty")["reason"]
    assert reason.startswith("no environment: imports of libraries are not checked (click)")
    home.write(".venv/pyvenv.cfg", "home = /usr/bin\n")
    (home.root / ".venv/lib/python3.12/site-packages").mkdir(parents=True)
    answer = home.json("languages", home.root)
    assert answer["pythonEnvironment"] == {"path": f"{home.root}/.venv", "namedBy": ".venv"}
    assert server(home, "ty")["reason"] is None


def test_project_files_are_told_and_what_answers_lack_without_them_with_a_command(home: Home) -> None:
    home.write("a.cpp", "")
    home.program("clangd")
    row = server(home, "clangd")
    assert (row["projectFiles"], row["moreProjectFiles"]) == ([], 0)
    assert "`bear -- make`" in row["reason"]
    for number in range(7):
        home.write(f"deep/p{number}/compile_flags.txt", "")
    home.write("build/compile_commands.json", "[]")
    row = server(home, "clangd")
    assert row["projectFiles"][0] == "build/compile_commands.json"
    assert (len(row["projectFiles"]), row["moreProjectFiles"]) == (5, 3)
    assert row["reason"] is None


def test_missing_packages_of_node_are_told_with_the_command_that_brings_them(home: Home) -> None:
    home.write("a.ts", "")
    home.write("tsconfig.json", "{}")
    home.write("package.json", '{"dependencies": {"left": "1"}}')
    home.program("tsc").parent.parent.joinpath("package.json").write_text('{"version": "7.0.2"}')
    row = server(home, "typescript")
    assert {"tsconfig.json", "package.json"} <= set(row["projectFiles"])
    assert row["reason"].endswith("`npm install` brings them")


def test_a_database_that_cannot_be_read_is_told(home: Home) -> None:
    home.write("a.c", "")
    home.program("clangd")
    home.write("compile_commands.json", "{")
    assert "compile_commands.json cannot be read" in server(home, "clangd")["reason"]
