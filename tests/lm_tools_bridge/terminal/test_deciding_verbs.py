"""Verbs that decide are refused to programs that we started: every verb of both programs is one or the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lm_tools_bridge.protocol import names
from manager.cli.verbs import FOR_ANYONE, cli
from support.processes.managers.manager_process import environment
from workspace_server.command.__main__ import FOR_ANYONE as FOR_ANYONE_OF_SERVERS
from workspace_server.command.__main__ import cli as servers

DECIDING = {
    "add", "approvals", "approvals approve", "approvals deny", "demo", "languages install", "languages remove",
    "languages update", "record off", "record on", "record purge",
    "remote add", "remote connect", "remote install", "remote remove", "restart", "secrets delete", "secrets set",
    "servers allow-write", "servers login", "servers sandbox", "service install", "service uninstall", "stop", "team join", "team leave", "team offer",
    "team unuse", "team use", "team withdraw", "token create", "token revoke", "tools allow", "tools ask",
    "tools deny", "tools disable", "tools enable", "tools expose", "tools unexpose", "tools visibility", "uninstall",
    "untrust",
}  # fmt: skip
BY_OPTIONS = {
    "adopt", "agent config", "client add", "client install", "client remove", "client update", "completion", "trust",
    "ui",
}  # fmt: skip
"""Verbs that decide unless, or only if, an option says so."""
DECIDING_OF_SERVERS = {
    "login", "sandbox allow-write", "sandbox choose", "secrets delete", "secrets set", "tools allow", "tools ask", "tools deny", "tools disable",
    "tools enable", "tools expose", "tools unexpose", "tools visibility", "untrust",
}  # fmt: skip
MORE = {"completion": ["--install"], "client add": ["codex", "--yes"]}


def verbs(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every verb that can be run, with its words: also groups that do something by themselves."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    if words and command.invoke_without_command:
        yield " ".join(words), command
    context = click.Context(command)
    for name in command.list_commands(context):
        verb = command.get_command(context, name)
        assert verb is not None
        yield from verbs(verb, (*words, name))


def arguments_of(command: click.Command, file: Path) -> list[str]:
    """Something for every argument and option that a verb needs."""
    given: list[str] = []
    for parameter in command.params:
        if parameter.required and isinstance(parameter, click.Option):
            given += (
                parameter.opts[:1] if parameter.is_flag else [parameter.opts[0], value_for(parameter, file)]
            )
    needed = [one for one in command.params if one.required and isinstance(one, click.Argument)]
    return [*given, *(value_for(argument, file) for argument in needed)]


def value_for(parameter: click.Parameter, file: Path) -> str:
    kind = parameter.type
    return str(kind.choices[0]) if isinstance(kind, click.Choice) else str(file)


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This process counts as one that we started; returns the home folder."""
    monkeypatch.setattr("lm_tools_bridge.machine.own_children.is_own_child", lambda pid: pid == os.getpid())
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def test_every_verb_is_for_anyone_or_decides() -> None:
    """A new verb must be added to a list here, and decides unless its program lists it."""
    all_verbs = {words for words, _ in verbs(cli)}
    all_verbs |= {"sessions", "whoami"}  # which the overview omits
    assert all_verbs - FOR_ANYONE.keys() == DECIDING
    assert all_verbs >= FOR_ANYONE.keys() >= BY_OPTIONS
    of_servers = {words for words, _ in verbs(servers)}
    assert of_servers - FOR_ANYONE_OF_SERVERS.keys() == DECIDING_OF_SERVERS


@pytest.mark.parametrize("words", sorted(DECIDING | BY_OPTIONS))
def test_a_program_that_we_started_runs_no_deciding_verb(words: str, marked: Path) -> None:
    file = marked / "file"
    file.touch()
    (command,) = (command for found, command in verbs(cli) if found == words)
    more = MORE.get(words, [])
    done = CliRunner().invoke(cli, [*words.split(), *arguments_of(command, file), *more])
    assert_refused(done)
    assert [path for path in marked.rglob("*") if path.is_file()] == [file]


@pytest.mark.parametrize("words", sorted(DECIDING_OF_SERVERS))
def test_nor_one_of_the_workspace_servers_own_program(words: str, marked: Path) -> None:
    (command,) = (command for found, command in verbs(servers) if found == words)
    folders = ["--config-dir", str(marked / "c"), "--state-dir", str(marked / "s")]
    done = CliRunner().invoke(servers, [*folders, *words.split(), *arguments_of(command, marked)])
    assert_refused(done)
    assert not [path for path in marked.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "words",
    [["completion", "bash"], ["remote", "list"], ["token", "list"], ["ui", "--list"]],
)
def test_what_only_reads_is_for_anyone(words: list[str], marked: Path) -> None:
    done = CliRunner().invoke(cli, words)
    assert "may not run" not in done.output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (set(), False), ({"list_all"}, True), ({"diff"}, True), ({"as_json"}, True), ({"yes"}, False),
        ({"as_json", "yes"}, False),
    ],
)  # fmt: skip
def test_trust_decides_unless_it_only_shows(options: set[str], expected: bool) -> None:
    given = {name: name in options for name in ("list_all", "diff", "as_json", "yes", "data")}
    assert FOR_ANYONE["trust"](given) is expected


@pytest.mark.parametrize(
    "words",
    [["token", "create", "evil"], ["stop"], ["tools", "deny", "x"], ["remote", "add", "evil", "ssh://evil/"]],
)
def test_the_mark_of_a_real_program_is_enough(words: list[str], tmp_path: Path) -> None:
    environ = {**environment(tmp_path), names.CHILD_VARIABLE: "i-1.x"}
    command = [sys.executable, "-I", "-m", "manager", *words, "--json"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert '"reason": "forbidden"' in done.stdout
    assert "in a terminal of yours" in done.stdout


def assert_refused(done: Any) -> None:
    assert done.exit_code == 1, done.output
    assert isinstance(done.exception, SystemExit)
    assert "by which you decide" in done.output
    assert "in a terminal of yours" in done.output
