"""The verbs trust and untrust: show what a workspace would run, ask, and record the answer.

The items are read once, and exactly the shown content is trusted. Content that changes while the question is
open needs trust again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from host.command_line import Failure, json_option, print_json
from host.printable import printable
from protocol.issues import Issue
from workspace_server.command import item_display
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.command.trust_items import gather
from workspace_server.trust.difference import differences
from workspace_server.trust.item import TrustItem, Verdict
from workspace_server.trust.record import RecordedItem
from workspace_server.trust.store import TrustedWorkspace, TrustStore, TrustStoreError

FOLDER: Final = "trust"
"""The trust store's folder in the state folder."""
_NOTE: Final = (
    "Trust covers the commands, the files they name, and all files of script tools.\n"
    "It does not cover what a program reads or downloads beyond that."
)


@dataclass(frozen=True, slots=True)
class _View:
    """The items of a workspace and their trust at one moment."""

    root: Path
    items: Sequence[TrustItem]
    issues: Sequence[Issue]
    verdicts: Mapping[str, Verdict]
    recorded: Mapping[str, RecordedItem]
    problem: str | None

    @property
    def waiting(self) -> int:
        return sum(verdict != "trusted" for verdict in self.verdicts.values())

    @property
    def removed(self) -> list[str]:
        return sorted(self.recorded.keys() - self.verdicts.keys())

    @property
    def settled(self) -> bool:
        """Whether everything is trusted and no recorded item was removed."""
        return not self.waiting and not self.removed and self.problem is None

    def as_json(self) -> dict[str, Any]:
        items = [item_display.as_json(item, self.verdicts[item.key]) for item in self.items]
        return {
            "root": str(self.root),
            "trusted": not self.waiting and self.problem is None,
            "items": items,
            "removed": self.removed,
            "issues": [issue.as_json() for issue in self.issues],
            "problem": self.problem,
        }


@click.command()
@click.argument("root", type=click.Path(path_type=Path), required=False)
@click.option("--diff", "only_diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted workspaces.")
@json_option
@click.pass_obj
def trust(
    folders: UserFolders, *, root: Path | None, only_diff: bool, yes: bool, list_all: bool, as_json: bool
) -> None:
    """Trust the workspace ROOT: allow its script tools, servers and settings to take effect.

    Trust covers exactly what is shown; changed content needs trust again.
    """
    store = TrustStore(folders.state_dir / FOLDER)
    if list_all == (root is not None):
        raise click.UsageError("give the folder of a project, or --list")
    if root is None:
        _list(store, folders, as_json=as_json)
        return
    view = _read_view(store, real_folder(root), folders)
    if only_diff:
        _show_difference(view, as_json=as_json)
    elif as_json:
        print_json((_accept(store, view, folders) if yes else view).as_json())
    else:
        _ask(store, view, yes=yes)


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def untrust(folders: UserFolders, *, root: Path, as_json: bool) -> None:
    """Revoke the trust of the workspace ROOT. The folder may be gone."""
    try:
        was = TrustStore(folders.state_dir / FOLDER).untrust(root)
    except TrustStoreError as unusable:
        raise _store_failure(unusable) from unusable
    if not was:
        raise Failure(
            f"nothing was trusted at {root}", "lmtb trust --list shows what is", reason="not_trusted"
        )
    if as_json:
        print_json({"ok": True, "root": str(root)})
    else:
        click.echo(f"From the next request on, nothing that comes with {printable(root)} runs.")


def _read_view(store: TrustStore, root: Path, folders: UserFolders) -> _View:
    found = gather(root, folders.config_dir, os.environ, folders.path)
    verdicts = store.verdicts(root, {item.key: item.digest() for item in found.items})
    issue = store.issue(root)
    problem = None if issue is None else issue.message
    return _View(root, found.items, found.issues, verdicts, store.recorded(root), problem)


def _accept(store: TrustStore, view: _View, folders: UserFolders) -> _View:
    _trust(store, view)
    return _read_view(store, view.root, folders)


def _trust(store: TrustStore, view: _View) -> None:
    try:
        store.trust(view.root, view.items)
    except TrustStoreError as unusable:
        raise _store_failure(unusable) from unusable
    except ValueError as error:
        raise Failure(str(error), "rename one of them", reason="same_name") from error


def _ask(store: TrustStore, view: _View, *, yes: bool) -> None:
    if view.problem is not None:
        click.echo(printable(view.problem), err=True)
    if not view.items and not view.recorded:
        _show_issues(view)
        text = f"{view.root} contains nothing that needs trust"
        raise Failure(text, "nothing to do; its read-only tools work anyway", reason="nothing_to_trust")
    click.echo(f"{printable(view.root)} brings along:\n")
    item_display.show_items(view.items, view.verdicts)
    for key in view.removed:
        click.echo(f"  removed  {printable(view.recorded[key].title, width=item_display.MAX_TITLE)}")
    _show_issues(view)
    if view.settled:
        click.echo("\nAll of this is trusted already.")
        return
    click.echo(f"\n{_NOTE}")
    if not yes:
        _confirm(view)
    _trust(store, view)
    click.echo(f"Trusted. Revoke with: lmtb untrust {printable(view.root)}")


def _show_issues(view: _View) -> None:
    if view.issues:
        click.echo("\nIgnored or misconfigured:")
    for issue in view.issues:
        click.echo(f"  {printable(issue.message)}")


def _confirm(view: _View) -> None:
    count = len(view.items)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        step = f"review it, then run: lmtb trust --yes {view.root}"
        raise Failure("nothing was trusted: there is no terminal to ask on", step, reason="not_asked")
    if any(verdict == "changed" for verdict in view.verdicts.values()):
        click.echo(f"What changed: lmtb trust --diff {printable(view.root)}")
    things = "this item" if count == 1 else f"these {count} items"
    if not click.confirm(f"Trust {things}?", default=False):
        raise Failure("nothing was trusted", "run lmtb trust again when you have decided", reason="declined")


def _show_difference(view: _View, *, as_json: bool) -> None:
    changes = differences(view.recorded, view.items)
    if as_json:
        found = [
            {"key": one.key, "kind": one.kind, "title": one.title, "lines": one.lines} for one in changes
        ]
        print_json({**view.as_json(), "changes": found})
        return
    if view.problem is not None:
        click.echo(printable(view.problem), err=True)
    if not changes:
        click.echo("Nothing changed since it was trusted." if view.recorded else "Nothing needs trust.")
    item_display.show_changes(changes)


def _list(store: TrustStore, folders: UserFolders, *, as_json: bool) -> None:
    rows = [(known.path, _state(store, known, folders)) for known in store.workspaces()]
    if as_json:
        print_json({"workspaces": [{"root": root, "state": state} for root, state in rows]})
    elif not rows:
        click.echo("No workspace was trusted yet.")
    for root, state in () if as_json else rows:
        click.echo(f"{printable(root or '(unknown)')}: {printable(state)}")


def _state(store: TrustStore, known: TrustedWorkspace, folders: UserFolders) -> str:
    if known.path is None:
        return f"not valid: {known.problem}"
    root = Path(known.path)
    if not root.is_dir():
        return "gone"
    view = _read_view(store, root, folders)
    if view.problem is not None:
        return f"not valid: {view.problem}"
    return f"{view.waiting} of {len(view.items)} wait for trust" if view.waiting else "trusted"


def _store_failure(unusable: TrustStoreError) -> Failure:
    return Failure(unusable.message, unusable.next_step, reason="store_unusable")
