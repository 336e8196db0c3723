"""What a `workspace.toml` says of language servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.kinds.table import KINDS
from lm_tools_bridge.code_intelligence.settings import LanguageServerEntry
from lm_tools_bridge.code_intelligence.settings_table import KNOWN
from support.projects.config_home import ConfigHome


@pytest.fixture
def home(tmp_path: Path) -> ConfigHome:
    return ConfigHome(tmp_path)


def entries(home: ConfigHome) -> list[LanguageServerEntry]:
    return list(home.current().features["code_intelligence"].entries)


def message(home: ConfigHome) -> str:
    (issue,) = home.current().issues
    return issue.message


def test_any_server_is_added_by_a_few_lines(home: ConfigHome) -> None:
    home.user(
        "[language_servers.elixir]\n"
        'command = ["elixir-ls", "--stdio"]\n'
        'languages = { ".ex" = "elixir", ".exs" = "elixir" }\n'
    )
    (entry,) = entries(home)
    assert (entry.name, entry.command) == ("elixir", ("elixir-ls", "--stdio"))
    assert entry.languages == {".ex": "elixir", ".exs": "elixir"}
    assert (entry.enabled, entry.origin.scope) == (True, "user")
    assert home.codes() == []


def test_a_known_server_needs_only_what_differs(home: ConfigHome) -> None:
    home.workspace(
        "[language_servers.clangd]\nmemory_limit_mib = 8192\nidle_s = 60\n"
        'env = { TMPDIR = "${workspaceFolder}/tmp" }\n'
        "[language_servers.clangd.settings.clangd]\nfallbackFlags = ['-std=c++20']\n"
    )
    (entry,) = entries(home)
    assert entry.memory_limit_bytes == 8 * 1024**3
    assert entry.idle_s == 60
    assert entry.env == {"TMPDIR": f"{home.root}/tmp"}
    assert entry.settings == {"clangd": {"fallbackFlags": ["-std=c++20"]}}
    assert entry.origin.scope == "workspace"
    assert home.codes() == []


def test_only_the_user_says_that_a_server_runs_nothing_of_the_project(home: ConfigHome) -> None:
    text = "[language_servers.ty]\nruns_nothing_of_the_project = 'it only reads'\n"
    home.user(text)
    home.workspace(text)
    claims = {entry.origin.scope: entry.runs_nothing_of_the_project for entry in entries(home)}
    assert claims == {"user": "it only reads", "workspace": ""}
    assert home.codes() == ["CONFIG_UNKNOWN_KEY"]


def test_commands_may_begin_at_home(home: ConfigHome) -> None:
    home.user('[language_servers.ty]\ncommand = ["~/bin/ty", "server"]\n')
    assert entries(home)[0].command == ("/home/ada/bin/ty", "server")


def test_an_unknown_server_without_a_command_is_told_with_its_line(home: ConfigHome) -> None:
    home.user("debug = 'off'\n[language_servers.clangdd]\nidle_s = 60\n")
    assert entries(home) == []
    assert 'entry "clangdd"' in message(home)
    assert "clangd?" in message(home)


def test_a_misspelt_key_is_told_with_its_line_and_the_nearest(home: ConfigHome) -> None:
    home.user("[language_servers.ty]\nmemory_limit_mb = 100\n")
    assert len(entries(home)) == 1
    assert "line 2" in message(home)
    assert "memory_limit_mib" in message(home)


@pytest.mark.parametrize(
    "line",
    [
        "enabled = 1",
        "command = 'ty server'",
        "languages = ['.py']",
        "languages = { 'a/b' = 'python' }",
        "languages = { '.py' = 'a b' }",
        "options = 'a'",
        "settings = []",
        "memory_limit_mib = 1",
        "idle_s = 'long'",
        "env = { 'A=B' = 'c' }",
        "command = ['${env:NOT_SET}']",
    ],
)
def test_an_invalid_value_skips_the_entry_and_no_other(home: ConfigHome, line: str) -> None:
    home.user(f"[language_servers.ty]\n{line}\n[language_servers.ruff]\nenabled = false\n")
    assert [entry.name for entry in entries(home)] == ["ruff"]
    assert len(home.codes()) == 1
    assert "line" in message(home)


def test_a_name_has_no_blanks(home: ConfigHome) -> None:
    home.user("[language_servers.'a b']\ncommand = ['x']\nlanguages = { '.x' = 'x' }\n")
    assert entries(home) == []


def test_a_workspace_cannot_set_what_programs_load(home: ConfigHome) -> None:
    home.workspace("[language_servers.ty]\nenv = { LD_PRELOAD = 'x', NODE_OPTIONS = 'y', A = 'b' }\n")
    assert entries(home)[0].env == {"A": "b"}
    assert home.codes() == ["CONFIG_ENVIRONMENT_REFUSED"]


def test_a_workspace_cannot_trust_itself(home: ConfigHome) -> None:
    home.workspace("[language_servers.ty]\ntrusted = true\n")
    assert home.codes() == ["CONFIG_KEY_REFUSED"]


def test_all_can_be_switched_off_beside_entries(home: ConfigHome) -> None:
    home.user("[language_servers]\nenabled = false\n[language_servers.ty]\nidle_s = 60\n")
    assert not home.current().features["code_intelligence"].enabled
    assert len(entries(home)) == 1


def test_only_the_user_decides_that_servers_start_at_once(home: ConfigHome) -> None:
    home.workspace("[language_servers]\nwarm = true\n")
    assert not home.current().features["code_intelligence"].warm
    assert home.codes() == ["CONFIG_UNKNOWN_KEY"]
    home.user("[language_servers]\nwarm = true\n")
    assert home.current().features["code_intelligence"].warm
    home.user("[language_servers]\nwarm = 'soon'\n")
    assert not home.current().features["code_intelligence"].warm
    assert home.codes() == ["CONFIG_INVALID_VALUE", "CONFIG_UNKNOWN_KEY"]


@pytest.mark.parametrize("key", ["compare_words", "new_errors"])
def test_only_the_user_switches_off_what_answers_add(home: ConfigHome, key: str) -> None:
    assert getattr(home.current().features["code_intelligence"], key)
    home.workspace(f"[language_servers]\n{key} = false\n")
    assert getattr(home.current().features["code_intelligence"], key)
    assert home.codes() == ["CONFIG_UNKNOWN_KEY"]
    home.user(f"[language_servers]\n{key} = false\n")
    assert not getattr(home.current().features["code_intelligence"], key)


def test_there_may_be_fifty(home: ConfigHome) -> None:
    home.user("".join(f"[language_servers.n{number}]\nenabled = false\n" for number in range(51)))
    assert len(entries(home)) == 50
    assert home.codes() == ["CONFIG_INVALID_VALUE"]


def test_values_are_not_in_issues(home: ConfigHome) -> None:
    home.user("[language_servers.ty]\nenv = { TOKEN = ['hunter2'] }\n")
    assert "hunter2" not in message(home)


def test_the_names_that_need_no_command_are_those_of_the_table() -> None:
    assert set(KNOWN) == set(KINDS)


@pytest.mark.parametrize(
    ("user", "workspace", "there", "codes"),
    [
        ("", "", True, []),
        ("[language_servers]\nenabled = false", "", False, []),
        ("[language_servers]\nenabled = false", "[language_servers]\nenabled = true", False, []),
        ("", "[language_servers]\nenabled = 1", False, ["CONFIG_INVALID_VALUE"]),
        ("[builtin]\nenabled = false", "", False, []),
        ("[builtin]\nenabled = false\n[language_servers]\nenabled = true", "", True, []),
        ("[language_servers]\nenable = false", "", True, ["CONFIG_UNKNOWN_KEY"]),
    ],
)
def test_language_servers_follow_the_built_in_tools_unless_a_file_says_otherwise(
    home: ConfigHome, user: str, workspace: str, there: bool, codes: list[str]
) -> None:
    home.user(user)
    home.workspace(workspace)
    assert home.current().features["code_intelligence"].enabled is there
    assert home.codes() == codes


def test_an_environment_of_python_is_named_by_either_file(home: ConfigHome) -> None:
    home.user('[language_servers]\npython_environment = "/opt/envs/all"\n')
    assert home.current().features["code_intelligence"].python_environment == "/opt/envs/all"
    home.workspace('[language_servers]\npython_environment = "tools/env"\n')
    assert home.current().features["code_intelligence"].python_environment == "tools/env"
    assert home.codes() == []


@pytest.mark.parametrize("path", ["/opt/env", "../env", "a/../../env", "~/env"])
def test_a_project_names_no_environment_elsewhere(home: ConfigHome, path: str) -> None:
    home.workspace(f'[language_servers]\npython_environment = "{path}"\n')
    assert home.current().features["code_intelligence"].python_environment == ""
    assert "inside of it only" in message(home)
