"""The verbs trust and untrust: decide whether what a project brings along may run.

After the decision they start the project's servers once and wait for their tool lists, with a line for
each. The lists are stored, so that even a client's first request gets them without waiting.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from lm_tools_bridge.protocol.internal.source_states import DOWN, STARTING
from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, say
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.printable import printable
from manager.cli import completion
from manager.cli.output.manager_access import ask_about
from manager.cli.output.workspace_options import TWO_FOLDERS, cwd_option
from manager.cli.workspace_command import is_remote, root_of, run, run_and_wait, run_there
from manager.status_reading import objects, shell_hint, state_words

WAIT_S: Final = 30.0
"""Longest wait; a server that needs more, for example to be downloaded, goes on by itself."""
# A line for each server seems to come at once; a question costs the manager a millisecond.
POLL_S: Final = 0.25

Say = Callable[[str], object]


def warm_sources(root: Path, say: Say) -> None:
    """Start the servers of the workspace at `root`, if a manager runs, and wait until each has its tools.

    Never fails: trust is recorded already.
    """
    with waiting("waiting for the servers"):
        _warm(root, say)


def _warm(root: Path, say: Say) -> None:
    began = time.monotonic()
    starting: set[str] = set()
    is_first = True
    while time.monotonic() - began < WAIT_S:
        try:
            sources = {
                str(entry.get("id")): entry for entry in objects(ask_about("/inspect", root), "sources")
            }
        except Failure as failure:
            if failure.reason != "no_manager":
                say(f"Their tools could not be listed yet: {failure}")
            return
        now = {name for name, source in sources.items() if _is_starting(source)}
        ended = starting - now
        if is_first:  # some fail at once, such as a program that does not exist
            ended = {name for name, source in sources.items() if source.get("state") in DOWN}
        if is_first and now:
            say(f"Starting {_count_words(len(now))} to list the tools. Ctrl-C leaves that to the background.")
            _start(root, [name for name in now if sources[name].get("pid") is None])
        for name in sorted(ended):
            say(_line(name, sources.get(name, {}), time.monotonic() - began))
            if (hint := shell_hint(sources.get(name, {}), os.environ)) is not None:
                say(f"  {printable(hint)}")
        if not now:
            return
        starting, is_first = now, False
        time.sleep(POLL_S)
    say(f"Still starting: {', '.join(map(printable, sorted(starting)))}. See: lmtb servers")


def _is_starting(source: Mapping[str, Any]) -> bool:
    is_listed = source.get("lastRefresh") is not None or source.get("error")
    return source.get("state") in STARTING or (source.get("state") in ("ready", "idle") and not is_listed)


def _start(root: Path, names: list[str]) -> None:
    """Start servers that do not run: one whose list is stored would start with its first call only."""
    for name in names:
        with suppress(Failure):
            ask_about("/refresh", root, source=name)


def _count_words(number: int) -> str:
    return "1 server" if number == 1 else f"{number} servers"


def _line(name: str, source: Mapping[str, Any], seconds: float) -> str:
    if source.get("state") == "ready":
        count = source.get("toolCount")
        return f"  {printable(name)}: ready after {seconds:.1f} s, tools: {count}"
    if source.get("state") == "pending_trust":
        return f"  {printable(name)}: waits for your trust again; why: lmtb servers"
    words = f'  "{printable(name)}" {state_words(source.get("state"))}'
    return f"{words}: {printable(source['error'])}" if source.get("error") else words


_path = click.argument("path", type=click.Path(path_type=Path), required=False)


def _folders_and_sources(
    ctx: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    return [CompletionItem(begun, type="dir"), *completion.sources(ctx, parameter, begun)]


@click.command(epilog=examples("lmtb trust", "lmtb trust --diff", "lmtb trust ~/shop github"))
@click.argument("path", required=False, shell_complete=_folders_and_sources)
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completion.sources)
@click.option("--diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--data", is_flag=True, help="Let the shown data files change without asking again.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted folders.")
@cwd_option
@json_option
@click.pass_context
def trust(
    ctx: click.Context,
    /,
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
    if ctx.obj is not None and (path is None or not (_is_path(path) or is_remote(path))):
        path, names = str(ctx.obj), words
        words = (path, *names)
    elif ctx.obj is not None:
        raise click.UsageError(TWO_FOLDERS)
    if path is not None and is_remote(path):  # trust there is a decision of its own, by the program there
        run_there(path, ["trust", *flags, *(["--json"] if as_json else [])], names)
    has_path = path is not None and (ctx.obj is not None or _is_path(path))
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


@click.command(epilog=examples("lmtb untrust", "lmtb untrust ~/shop"))
@_path
@cwd_option
@json_option
@click.pass_context
def untrust(ctx: click.Context, /, path: Path | None, as_json: bool) -> None:
    """Revoke trust: nothing that this project brings along runs any more."""
    if None not in (path, ctx.obj):
        raise click.UsageError(TWO_FOLDERS)
    path = path or ctx.obj
    if path is not None and is_remote(path):
        run_there(path, ["untrust", *(["--json"] if as_json else [])])
    run("untrust", root_of(path))
