"""Tests the overview of verbs, and which modules short verbs import."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from manager import __version__, exit_codes
from manager.cli.verbs import cli, lines_of_verbs, synonyms
from support.commands import commands

FOLDER_VERBS = {"add", "adopt", "outdated", "tools", "servers", "call", "log", "trust", "untrust"}
SLOW = ("aiohttp", "pydantic", "mcp", "psutil", "structlog", "asyncio", "http.client", "uvloop")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


SHORT_VERBS = (
    "stop", "log", "status", "servers", "tools", "trust",
)  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        *(f"import manager.cli.{module}" for module in SHORT_VERBS),
        "import manager.cli",
        "import manager.client",
    ],
)
def test_short_verbs_import_nothing_slow(statement: str) -> None:
    assert modules_after(statement).isdisjoint(SLOW)


def test_connect_is_there_without_the_large_libraries() -> None:
    """Each client that starts programs waits for it."""
    loaded = modules_after("import manager.cli.connect, manager.stdio_bridge.bridge")
    assert loaded.isdisjoint({"aiohttp", "pydantic", "mcp", "psutil", "structlog"})


def test_guard_against_slow_imports_would_notice_one() -> None:
    assert not modules_after("import manager.log").isdisjoint(SLOW)


def test_overview_names_every_verb(run: Any) -> None:
    result = run("--help")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for verb, text in lines_of_verbs().items():
        assert [line for line in lines if line.split() == [verb, *text.split()]], verb


@pytest.mark.parametrize("verb", lines_of_verbs())
def test_every_verb_explains_itself(run: Any, verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


WITHOUT_JSON = {
    "connect": "its standard output is the MCP protocol",
    "agent acp": "its standard output is the Agent Client Protocol",
    "hook post-edit": "its standard output is what Claude Code shows its model",
    "remote serve": "its standard output is the line to the other host",
    "remote connect": "ssh asks at the terminal",
    "remote install": "it asks, and shows what the installer on the other host says",
}
"""Commands without --json, each with the reason."""


def test_every_command_has_json() -> None:
    without = {
        name
        for name, command in commands()
        if "--json" not in {option for parameter in command.params for option in parameter.opts}
    }
    assert without == WITHOUT_JSON.keys()


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--nonsense", "--json"],
        ["statsu", "--json"],
        ["call", "--json"],
        ["tools", "--json", "why"],
        ["trust", "--json", "--list", "--diff", "--nonsense"],
    ],
)
def test_wrong_usage_is_told_to_programs(run: Any, words: list[str]) -> None:
    ended = run(*words)
    assert ended.exit_code == exit_codes.USAGE
    told = json.loads(ended.stdout)
    assert told["ok"] is False
    assert told["error"].keys() == {"reason", "message", "nextStep"}
    assert told["error"]["reason"] == "usage"
    assert told["error"]["message"] in ended.stderr


@pytest.mark.parametrize(
    "words",
    [["tools", "--json", "why", "x"], ["tools", "why", "--json", "x"], ["tools", "why", "x", "--json"]],
)
def test_json_counts_wherever_it_stands(run: Any, words: list[str]) -> None:
    ended = run(*words)
    assert json.loads(ended.stdout)["error"]["reason"] == "no_manager"
    assert ended.exit_code == exit_codes.NO_MANAGER


def test_json_after_two_dashes_is_an_argument(run: Any) -> None:
    ended = run("call", "x", "--", "--json")
    assert (ended.exit_code, ended.stdout) == (exit_codes.USAGE, "")


@pytest.mark.parametrize("command", [name for name, _ in commands() if name.split()[0] in FOLDER_VERBS])
def test_every_command_about_a_workspace_takes_its_folder(command: str) -> None:
    options = {option for parameter in dict(commands())[command].params for option in parameter.opts}
    assert options & {"--cwd", "path"}


def test_version_is_printed(run: Any) -> None:
    assert run("--version").stdout == f"lm-tools-bridge {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["status", "--nonsense"], ["call"]])
def test_wrong_usage_is_exit_code_2(run: Any, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_module_is_the_same_command_line(environ: dict[str, str]) -> None:
    command = [sys.executable, "-I", "-m", "manager", "--version"]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert __version__ in ended.stdout


@pytest.mark.parametrize(
    ("verb", "hint"),
    [
        ("serv", "did you mean serve"),
        ("stauts", "did you mean status"),
        ("logs", "did you mean log"),
        ("upgrade", "did you mean restart"),
        ("xyzzy", None),
    ],
)
def test_a_mistyped_verb_is_refused_with_the_nearest_ones(verb: str, hint: str | None) -> None:
    ended = CliRunner().invoke(cli, [verb])
    assert ended.exit_code == 2
    assert f"there is no verb '{verb}'" in ended.stderr
    assert (hint or "did you mean") in ended.stderr if hint else "did you mean" not in ended.stderr


def test_words_of_other_programs_lead_to_verbs_that_exist() -> None:
    verbs = lines_of_verbs()
    assert synonyms().keys().isdisjoint(verbs)
    for meant in synonyms().values():
        assert meant.replace(",", "").split()[0] in {*verbs, "--version", "a"}, meant
