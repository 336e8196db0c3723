"""Verbs about what a workspace's content may do, and about the user's secrets.

Carried out by the workspace server's own command, in this process's place: it knows the files, and it can ask
at this terminal. It works whether a manager runs or not; running servers see changes with the next request.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from host.command_line import Failure
from manager.cli.output.manager_access import current_folder, unmatched, user_paths
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.paths import Paths

_NEED_PATH: Final = frozenset({"trust", "env"})
"""Verbs that look programs up, and must find those that the manager's servers find."""
_PATH_S: Final = 1.0
"""How long the manager is waited for where it can be done without."""

_path = click.argument("path", type=click.Path(path_type=Path), required=False)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@click.command()
@_path
@click.option("--diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "list_all", is_flag=True, help="List the folders that were trusted.")
@_json_option
def trust(path: Path | None, diff: bool, yes: bool, list_all: bool, as_json: bool) -> None:
    """Let the script tools, servers and settings of a folder's workspace do what they say.

    Shows them first. What is trusted is exactly what was shown: when a byte of it changes, it waits again.
    """
    flags = [*(["--diff"] if diff else []), *(["--yes"] if yes else []), *_flag(as_json)]
    if list_all:
        run("trust", "--list", *flags)
    run("trust", root_of(path), *flags)


@click.command()
@_path
@_json_option
def untrust(path: Path | None, as_json: bool) -> None:
    """Let nothing that a folder's workspace brings run any more."""
    run("untrust", root_of(path), *_flag(as_json))


@click.group()
def secrets() -> None:
    """Keep tokens that servers need, where no log and no list shows them."""


@secrets.command(name="set")
@click.argument("key")
@click.option("--stdin", is_flag=True, help="Read the value from standard input.")
def set_(key: str, stdin: bool) -> None:
    """Store a secret; its value is asked for, and never shown."""
    run("secrets", "set", key, *(["--stdin"] if stdin else []))


@secrets.command(name="list")
@_json_option
def list_(as_json: bool) -> None:
    """List the names of the stored secrets."""
    run("secrets", "list", *_flag(as_json))


@secrets.command()
@click.argument("key")
def delete(key: str) -> None:
    """Forget a secret."""
    run("secrets", "delete", key)


def run(*words: str) -> NoReturn:
    """Become the workspace server's command, with the user's folders."""
    paths = user_paths()
    folders = (
        "--config-dir", str(paths.config_dir), "--state-dir", str(paths.state_dir),
        "--runtime-dir", str(paths.runtime_dir),
    )  # fmt: skip
    search = _managers_path(paths) if words[0] in _NEED_PATH else None
    known = () if search is None else ("--path", search)
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, "-I", "-m", "workspace_server.command", *folders, *known, *words]
    try:
        os.execv(sys.executable, command)  # noqa: S606  no shell is meant
    except OSError as error:
        raise Failure(f"{sys.executable} cannot be run: {error}", "install the program again") from error


def _managers_path(paths: Paths) -> str | None:
    """The PATH that the running manager's servers inherit; None where nobody says."""
    try:
        search = Control(paths.control_socket, _PATH_S).get("/status").get("path")
    except (NoManager, ManagerFault, ControlRefusal):
        return None
    return search if isinstance(search, str) and "\0" not in search else None


def _flag(as_json: bool) -> tuple[str, ...]:
    return ("--json",) if as_json else ()


def root_of(path: Path | None) -> str:
    """The root of the workspace a folder belongs to: as the manager says, or by the same rules without one.

    A folder that does not exist any more stands for itself, so that its trust can be taken back.
    """
    folder = current_folder(path)
    if not Path(folder).is_dir():
        return folder
    try:
        answer = Control(user_paths().control_socket).post("/resolve", {"cwd": folder})
        return str(answer["match"]["workspaceFolders"][0])
    except (NoManager, ManagerFault):
        return _nearest_mark(folder)
    except ControlRefusal as refused:
        if refused.status == 404:
            raise unmatched(folder) from refused
        raise Failure(f"{folder} cannot be used: {refused}", "look closer with: lmtb doctor") from refused


def _nearest_mark(folder: str) -> str:
    # the rule takes 20 ms to import, and is rarely needed
    from manager.filesystem import examine, identify  # noqa: PLC0415
    from manager.folder import CwdProblem  # noqa: PLC0415
    from manager.routing.workspace.matching import match  # noqa: PLC0415

    facts = examine([folder])
    if isinstance(facts, CwdProblem):
        raise Failure(f"{folder} cannot be used: {facts.kind.value}", "name an existing folder")
    home = identify(str(Path.home()))
    found = match(facts.ancestors, (), home=home, auto_start=True)
    if found is None:
        raise unmatched(folder)
    return found.root
