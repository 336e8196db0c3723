"""Tests the overview of verbs, and which modules short verbs import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from manager import __version__
from manager.cli.verbs import _VERBS, cli

FOLDER_VERBS = {"adopt", "tools", "servers", "call", "logs", "trust", "untrust"}
SLOW = ("aiohttp", "pydantic", "mcp", "psutil", "structlog", "asyncio", "http.client", "uvloop")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        *(f"import manager.cli.{module}" for module in ("show", "stop", "tools", "servers", "trust", "logs")),
        "import manager.cli",
        "import manager.client",
    ],
)
def test_short_verbs_import_nothing_slow(statement: str) -> None:
    assert modules_after(statement).isdisjoint(SLOW)


def test_connect_is_there_without_the_large_libraries() -> None:
    """Each client that starts programs waits for it."""
    loaded = modules_after("import manager.cli.connect, manager.stdio_bridge.main")
    assert loaded.isdisjoint({"aiohttp", "pydantic", "mcp", "psutil", "structlog"})


def test_guard_against_slow_imports_would_notice_one() -> None:
    assert not modules_after("import manager.log").isdisjoint(SLOW)


def test_overview_names_every_verb(run: Any) -> None:
    result = run("--help")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for verb, (_, text) in _VERBS.items():
        assert [line for line in lines if line.split() == [verb, *text.split()]], verb


@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_explains_itself(run: Any, verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something by itself, with what a person types for it."""
    for verb in _VERBS:
        command = cli.get_command(None, verb)  # type: ignore[arg-type]  # the context is not used
        assert command is not None
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield verb, command
        if isinstance(command, click.Group):
            yield from ((f"{verb} {name}", further) for name, further in command.commands.items())


ACTS = {"serve", "connect", "demo", "servers login", "secrets set", "secrets delete", "uninstall"} | {
    *(f"tools {word}" for word in ("enable", "disable", "allow", "ask", "deny")),
    *(f"service {word}" for word in ("install", "uninstall")),
}
"""Commands that do something and show nothing but that it is done."""


def test_every_command_that_shows_something_has_json() -> None:
    found = dict(commands())
    assert found.keys() >= ACTS
    without = {
        name
        for name, command in found.items()
        if "--json" not in {option for parameter in command.params for option in parameter.opts}
    }
    assert without == ACTS


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
    ("verb", "hint"), [("serv", "did you mean serve"), ("stauts", "did you mean status"), ("xyzzy", None)]
)
def test_a_mistyped_verb_is_refused_with_the_nearest_ones(verb: str, hint: str | None) -> None:
    ended = CliRunner().invoke(cli, [verb])
    assert ended.exit_code == 2
    assert f"there is no verb '{verb}'" in ended.stderr
    assert (hint or "did you mean") in ended.stderr if hint else "did you mean" not in ended.stderr
