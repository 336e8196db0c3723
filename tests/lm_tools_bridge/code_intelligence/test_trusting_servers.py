"""`lmtb trust` shows the language servers that a project brings, or that run its code."""

from __future__ import annotations

from pathlib import Path

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


def own_program(home: Home, path: str) -> Path:
    program = home.write(path, f"#!/bin/sh\ntouch {home.root}/ran\n")
    program.chmod(0o755)
    return program


def test_a_program_of_the_project_is_shown_with_its_bytes_and_trusted(home: Home) -> None:
    home.write("a.py", "")
    own_program(home, ".venv/bin/ty")
    assert home.json("pending", home.root)["pending"] == ["ty"]
    shown = home.run("trust", home.root).stdout
    assert f"is a program of the project ({home.root}/.venv/bin/ty)" in shown
    assert "file: .venv/bin/ty" in shown
    home.run("trust", home.root, "--yes")
    assert home.states() == {"language-server:ty": "trusted"}
    assert home.json("pending", home.root)["pending"] == []
    own_program(home, ".venv/bin/ty").write_text("#!/bin/sh\nevil\n")
    assert home.states() == {"language-server:ty": "changed"}
    assert not (home.root / "ran").exists()


def test_a_server_of_the_user_that_runs_code_of_the_project_says_which(home: Home) -> None:
    home.write("src/main.rs", "")
    home.program("rust-analyzer")
    shown = home.run("trust", home.root).stdout
    assert "rust-analyzer: runs code of the project: build scripts, procedural macros" in shown


def test_what_runs_without_trust_does_not_wait(home: Home) -> None:
    home.write("a.py", "")
    home.program("ty")
    assert home.states() == {}
    own_program(home, ".venv/bin/ty")
    assert home.json("pending", home.root)["pending"] == []
    assert home.states() == {"language-server:ty": "new"}


def test_an_entry_of_the_project_is_shown_without_its_secrets(home: Home) -> None:
    home.write(
        ".lm-tools-bridge/workspace.toml",
        "[language_servers.foo]\ncommand = ['./serve']\nlanguages = { '.foo' = 'foo' }\n"
        "env = { API_KEY = 'hunter2hunter2' }\n",
    )
    own_program(home, "serve")
    shown = home.run("trust", home.root).stdout
    assert "language server foo: is configured by the project" in shown
    assert "configured in: .lm-tools-bridge/workspace.toml" in shown
    assert "hunter2" not in shown
    home.run("trust", home.root, "foo", "--yes")
    assert home.states() == {"language-server:foo": "trusted"}


def test_nothing_is_asked_where_language_servers_are_off(home: Home) -> None:
    home.write("src/main.rs", "")
    home.program("rust-analyzer")
    home.write(".lm-tools-bridge/workspace.toml", "[language_servers]\nenabled = false\n")
    assert home.states() == {}
