"""The verbs trust and untrust: decide whether what a project brings along may run."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from lm_tools_bridge.terminal.command_line import json_option, say
from manager.cli.completion import suggestions
from manager.cli.output.source_warming import warm_sources
from manager.cli.workspace.remote_project import is_remote, run_there
from manager.cli.workspace_command import root_of, run, run_and_wait

_path = click.argument("path", type=click.Path(path_type=Path), required=False)


def _folders_and_sources(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    return [CompletionItem(begun, type="dir"), *suggestions.sources(ctx, parameter, begun)]


@click.command()
@click.argument("path", required=False, shell_complete=_folders_and_sources)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=suggestions.sources)
@click.option("--diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--data", is_flag=True, help="Let the shown data files change without asking again.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted folders.")
@json_option
def trust(
    path: str | None,
    names: tuple[str, ...],
    *,
    diff: bool,
    yes: bool,
    data: bool,
    list_all: bool,
    as_json: bool,
) -> None:
    """Trust this project: allow its script tools, skills, servers and settings to take effect.

    Shows them first and asks. Trust covers exactly what was shown; changed content needs trust again. With
    NAMES, only these tools and servers. If a manager runs, the project's servers are started once, so that
    clients get their tools at once.
    """
    flags_given = {"--diff": diff, "--yes": yes, "--data": data}
    flags = [flag for flag, is_given in flags_given.items() if is_given]
    if list_all:
        run("trust", "--list", *flags)
    words = () if path is None else (path, *names)
    if path is not None and is_remote(path):  # trust there is a decision of its own, by the program there
        run_there(path, ["trust", *flags, *(["--json"] if as_json else [])], names)
    has_path = path is not None and _is_path(path)
    root, items = root_of(Path(words[0]) if has_path else None), words[1:] if has_path else words
    if diff or (as_json and not yes):
        run("trust", *flags, "--", root, *items)
    status = run_and_wait("trust", *flags, "--", root, *items)
    if status == 0:
        with suppress(KeyboardInterrupt):
            warm_sources(Path(root), _silent if as_json else say)
    sys.exit(status)


def _is_path(word: str) -> bool:
    """Whether the first word is the project's path, and not a name: it is a folder, or reads like a path."""
    return Path(word).is_dir() or word.startswith((".", "~", os.sep))


def _silent(line: str) -> None:
    """Say nothing: the output is one JSON document."""


@click.command()
@_path
@json_option
def untrust(path: Path | None, as_json: bool) -> None:
    """Revoke trust: nothing that this project brings along runs any more."""
    if path is not None and is_remote(path):
        run_there(path, ["untrust", *(["--json"] if as_json else [])])
    run("untrust", root_of(path))
