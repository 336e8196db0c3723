"""Tests of the overview of verbs, and of what it costs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from manager import __version__
from manager.cli import _VERBS, cli

SLOW = ("aiohttp", "pydantic", "mcp", "psutil", "structlog", "asyncio", "http.client", "uvloop")


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "statement",
    ["import manager.cli", "import manager.cli.show", "import manager.cli.stop", "import manager.client"],
)
def test_short_verbs_import_nothing_slow(statement: str) -> None:
    assert modules_after(statement).isdisjoint(SLOW)


def test_guard_against_slow_imports_would_notice_one() -> None:
    assert not modules_after("import manager.settings").isdisjoint(SLOW)


def test_overview_names_every_verb(run: Any) -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(f"\n  {verb} " in result.stdout for verb in _VERBS)


@pytest.mark.parametrize("verb", _VERBS)
def test_every_verb_explains_itself(run: Any, verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("verb", [verb for verb in _VERBS if verb not in {"serve", "demo"}])
def test_every_verb_that_shows_something_has_json(verb: str) -> None:
    command = cli.get_command(None, verb)  # type: ignore[arg-type]  # the context is not used
    assert command is not None
    assert "--json" in {name for option in command.params for name in option.opts}


def test_version_is_told(run: Any) -> None:
    assert run("--version").stdout == f"lm-tools-bridge {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["status", "--nonsense"], ["call"]])
def test_wrong_usage_is_exit_code_2(run: Any, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_module_is_the_same_command_line(environ: dict[str, str]) -> None:
    command = [sys.executable, "-I", "-m", "manager", "--version"]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert __version__ in ended.stdout
