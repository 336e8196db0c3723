"""The verbs trust, untrust and pending: show what a workspace would run, ask, and record the answer.

The items are read once, and exactly the shown content is trusted. Content that changes while the question is
open needs trust again. `pending`, for `lmtb status`, names what waits for trust, as far as files tell.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from lm_tools_bridge.terminal.command_line import Failure, json_option, print_json, say
from lm_tools_bridge.terminal.deciding_verbs import refuse_children
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table, Tone
from lm_tools_bridge.text.printable import printable
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.command.trust_view import (
    MAX_TITLE,
    TrustView,
    change_lines,
    gather,
    item_lines,
    read_view,
    short_name,
)
from workspace_server.trust.difference import differences
from workspace_server.trust.item import TrustItem, trust_command, untrust_command
from workspace_server.trust.records import RecordedItem
from workspace_server.trust.store import TrustedWorkspace, TrustStore, TrustStoreError

FOLDER: Final = "trust"
"""The trust store's folder in the state folder."""
_NOTE: Final = (
    "Trust covers the commands, the files they name, and all files of script tools and skills.",
    "It does not cover what a program reads or downloads beyond that.",
)
_COLUMNS: Final = (Column("PROJECT", Kind.FOLDER), Column("STATE", Kind.STATE))


@click.command()
@click.argument("root", type=click.Path(path_type=Path), required=False)
@click.argument("names", nargs=-1)
@click.option("--diff", "only_diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--data", is_flag=True, help="Let the shown data files change without asking again.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted workspaces.")
@json_option
@click.pass_obj
def trust(
    folders: UserFolders,
    *,
    root: Path | None,
    names: tuple[str, ...],
    only_diff: bool,
    yes: bool,
    data: bool,
    list_all: bool,
    as_json: bool,
) -> None:
    """Trust the workspace ROOT: allow its script tools, skills, servers and settings to take effect.

    With NAMES only these items. Trust covers exactly what is shown; changed content needs trust again.
    """
    store = TrustStore(folders.state_dir / FOLDER)
    if list_all == (root is not None):
        raise click.UsageError("give the folder of a project, or --list")
    if root is None:
        _list(store, folders, as_json=as_json)
        return
    view = read_view(store, real_folder(root), folders).select_items(names)
    if only_diff:
        _show_difference(view, as_json=as_json)
    elif as_json:
        if not (yes or view.settled):
            step = f"review the items, then repeat it with --yes: {trust_command(view.root)} --yes"
            text = "nothing was trusted: with --json nothing is asked"
            raise Failure(text, step, reason="not_confirmed", members=view.as_json())
        print_json((_accept(store, view, folders, names, data=data) if yes else view).as_json())
    else:
        _ask(store, view, yes=yes, data=data)


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def untrust(folders: UserFolders, *, root: Path, as_json: bool) -> None:
    """Revoke the trust of the workspace ROOT, and of its repository's worktrees. The folder may be gone."""
    try:
        revoked = TrustStore(folders.state_dir / FOLDER).untrust(root)
    except TrustStoreError as unusable:
        raise _store_failure(unusable) from unusable
    if not revoked:
        raise Failure(
            f"nothing was trusted at {root}", "lmtb trust --list shows what is", reason="not_trusted"
        )
    if as_json:
        print_json({"root": str(root), "revoked": list(revoked)})
        return
    say(f"From the next request on, nothing that comes with {printable(root)} runs.")
    if others := [path for path in revoked if path != os.path.realpath(root)]:
        say(f"The same holds in its repository: {printable(', '.join(others), width=MAX_TITLE)}")


def _accept(
    store: TrustStore, view: TrustView, folders: UserFolders, names: tuple[str, ...], *, data: bool
) -> TrustView:
    _trust(store, view.with_data(view.data_files(all_items=True)) if data else view)
    return read_view(store, view.root, folders).select_items(names)


def _trust(store: TrustStore, view: TrustView) -> None:
    refuse_children("may not decide what is trusted")
    try:
        store.trust(view.root, view.items, view.others)
    except TrustStoreError as unusable:
        raise _store_failure(unusable) from unusable
    except ValueError as error:
        raise Failure(str(error), "rename one of them", reason="same_name") from error


def _ask(store: TrustStore, view: TrustView, *, yes: bool, data: bool) -> None:
    if view.problem is not None:
        say(Note(view.problem, Tone.WARN), err=True)
    if not view.items and not view.recorded:
        show(_issue_lines(view))
        text = f"{printable(view.root)} contains nothing that needs trust"
        if view.issues:
            raise Failure(text, "correct what is listed above", reason="nothing_to_trust")
        say(f"{text}. Its built-in tools only read, and work anyway.")
        return
    marked = view.data_files(all_items=True) if data else {}
    if yes or view.settled:
        for line in _lines(view):
            click.echo(line)
    elif not show(_lines(view)):
        raise _not_trusted()
    if view.settled and not marked:
        say("", Note("All of this is trusted already.", Tone.GOOD))
        return
    say("", *_NOTE)
    if not (yes or data) and _confirm_data(view):
        marked = view.data_files()
    marked_view = view.with_data(marked) if marked else view
    if not yes:
        _confirm(view)
    _trust(store, marked_view)
    say(Note(f"Trusted. Revoke with: {untrust_command(view.root)}", Tone.GOOD))
    if marked:
        say("Its data files may change without asking again.")
    elif left := view.data_files():
        say(_how_to_mark(left, view.root))


def _lines(view: TrustView) -> Iterator[str]:
    yield f"{printable(view.root)} brings along:\n"
    yield from item_lines(view.items, view.verdicts, view.origins)
    for key in view.removed:
        yield f"  removed  {printable(view.recorded[key].title, width=MAX_TITLE)}"
    yield from _issue_lines(view)


def _issue_lines(view: TrustView) -> Iterator[str]:
    if view.issues:
        yield "\nIgnored or misconfigured:"
    for issue in view.issues:
        yield f"  {printable(issue.message)}"


def _confirm_data(view: TrustView) -> bool:
    """Whether the user calls the files data; without a terminal, or without such files, they are not."""
    data_files = view.data_files()
    if not data_files or not is_terminal():
        return False
    say("Data files, if a server writes to them:")
    for key, paths in data_files.items():
        click.echo(f"  {printable(', '.join(paths), width=MAX_TITLE)} ({printable(key)})")
    return click.confirm("May they change without asking you again?", default=False)


def _how_to_mark(data_files: Mapping[str, Sequence[str]], root: Path) -> str:
    paths = dict.fromkeys(path for file_names in data_files.values() for path in file_names)
    examples = printable(", ".join(map(json.dumps, paths)), width=MAX_TITLE)
    return (
        f"If a server writes to its data file, it waits for trust again. To prevent that:"
        f" {printable(trust_command(root))} --data, or add this line to its entry: data = [{examples}]"
    )


def _confirm(view: TrustView) -> None:
    count = len(view.items)
    if not is_terminal():
        step = f"review it, then run: {trust_command(view.root)} --yes"
        raise Failure("nothing was trusted: there is no terminal to ask on", step, reason="not_asked")
    if any(verdict == "changed" for verdict in view.verdicts.values()):
        say(f"What changed: {trust_command(view.root)} --diff")
    things = "this item" if count == 1 else f"these {count} items"
    if not click.confirm(f"Trust {things}?", default=False):
        raise _not_trusted()


def _not_trusted() -> Failure:
    return Failure("nothing was trusted", "run lmtb trust again when you have decided", reason="declined")


def _show_difference(view: TrustView, *, as_json: bool) -> None:
    changes = [
        change
        for change in differences(view.recorded, view.items)
        if view.verdicts.get(change.key) != "trusted"
    ]
    if as_json:
        changes_as_json = [
            {"key": change.key, "kind": change.kind, "title": change.title, "lines": change.lines}
            for change in changes
        ]
        print_json({**view.as_json(), "changes": changes_as_json})
        return
    if view.problem is not None:
        say(Note(view.problem, Tone.WARN), err=True)
    if not changes:
        say("Nothing changed since it was trusted." if view.recorded else "Nothing needs trust.")
    show(change_lines(changes))


def _list(store: TrustStore, folders: UserFolders, *, as_json: bool) -> None:
    rows = [(workspace.path, _state(store, workspace, folders)) for workspace in store.workspaces()]
    if as_json:
        print_json({"workspaces": [{"root": root, "state": state} for root, state in rows]})
    elif rows:
        say(Table(_COLUMNS, rows))
    else:
        say("No workspace was trusted yet.")


def _state(store: TrustStore, workspace: TrustedWorkspace, folders: UserFolders) -> str:
    if workspace.path is None:
        return f"not valid: {workspace.problem}"
    root = Path(workspace.path)
    if not root.is_dir():
        return "gone"
    view = read_view(store, root, folders)
    if view.problem is not None:
        return f"not valid: {view.problem}"
    return f"{view.waiting} of {len(view.items)} wait for trust" if view.waiting else "trusted"


def _store_failure(unusable: TrustStoreError) -> Failure:
    return Failure(unusable.message, unusable.next_step, reason="store_unusable")


_KEPT_ROWS = 2
"""Rows of a page that stay free, for the question below it."""


def is_terminal() -> bool:
    """Whether a person can read and answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show(lines: Iterable[str]) -> bool:
    """Print lines, on a terminal with a pause after each page; returns whether the reader saw all of them."""
    if not is_terminal():
        for line in lines:
            click.echo(line)
        return True
    size = shutil.get_terminal_size()
    pages = list(_pages(lines, size.columns, max(size.lines - _KEPT_ROWS, 1)))
    for number, page in enumerate(pages, 1):
        for line in page:
            click.echo(line)
        if number < len(pages) and not _goes_on(f"-- page {number} of {len(pages)}; Enter: next, q: quit --"):
            return False
    return True


def _pages(lines: Iterable[str], columns: int, rows: int) -> Iterator[list[str]]:
    page: list[str] = []
    used = 0
    for line in lines:
        height = sum(max(1, -(-len(part) // columns)) for part in click.unstyle(line).split("\n"))
        if page and used + height > rows:
            yield page
            page, used = [], 0
        page.append(line)
        used += height
    yield page


def _goes_on(question: str) -> bool:
    answer: str = click.prompt(question, default="", show_default=False, prompt_suffix=" ")
    return not answer.lower().startswith("q")


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def pending(folders: UserFolders, /, root: Path, **_: bool) -> None:
    """Name what of the workspace ROOT waits for trust.

    Your login shell is not started. So an entry whose variables only that shell sets is not named, and a
    program that only its PATH finds counts as unchanged.
    """
    folder = real_folder(root)
    store = TrustStore(folders.state_dir / FOLDER)
    marks = store.data_marks(folder)
    gathered = gather(
        folder,
        folders.config_dir,
        os.environ,
        folders.path,
        marks,
        state_dir=folders.state_dir,
        use_shell=False,
    )
    store.inherits, items = gathered.inherits, gathered.items
    verdicts = store.item_verdicts(folder, items)
    recorded = {} if store.issue(folder) else store.recorded(folder)
    names = [
        short_name(item)
        for item in items
        if verdicts[item.key] != "trusted"
        and not item.is_optional
        and not _differs_in_program_only(item, recorded)
    ]
    print_json({"root": str(folder), "pending": names, "command": trust_command(folder)})


def _differs_in_program_only(item: TrustItem, recorded: Mapping[str, RecordedItem]) -> bool:
    before = recorded.get(item.key)
    if before is None or "program" not in item.facts:
        return False
    facts = {**item.facts, "program": before.facts.get("program")}
    return replace(item, facts=facts).digest() == before.digest
