"""The verb client: connects coding agents by adding this server to their configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import copy
from typing import Any, Final

import click

from lm_tools_bridge.client_setup import entries
from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.client_setup.cli.changes import Changes, client_table, configured, entry_text
from lm_tools_bridge.client_setup.cli.changes import as_json as overview_json
from lm_tools_bridge.client_setup.cli.context import client_files, named
from lm_tools_bridge.client_setup.cli.service_offer import ServiceOffer
from lm_tools_bridge.client_setup.cli.sharing_offer import SharingOffer
from lm_tools_bridge.client_setup.clients import CLIENTS, Client
from lm_tools_bridge.client_setup.entries import Entry, upgraded
from lm_tools_bridge.client_setup.hooks import with_hooks
from lm_tools_bridge.client_setup.workbench import ClientFiles, Overview
from lm_tools_bridge.machine.own_children import are_we_own_child
from lm_tools_bridge.terminal.command_line import (
    Command,
    Failure,
    SubVerbs,
    examples,
    json_option,
    print_json,
    say,
)
from lm_tools_bridge.terminal.views import Note, Tone
from lm_tools_bridge.text.printable import printable
from manager.cli import completion
from manager.cli.output.file_changes import short

_OURS: Final = frozenset({"current", "outdated"})
_NO_PORT: Final = 1
"""Stands for the port where an entry is only removed."""


def _port_option(command: Command) -> Command:
    return click.option(
        "--port",
        type=click.IntRange(1, 65535),
        help="The manager's port; default: that of the running manager, else the configured one.",
    )(command)


def _update_options(command: Command) -> Command:
    for option in (
        click.option("--dry-run", is_flag=True, help="Show the change, and write nothing."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    ):
        command = option(command)
    return command


def _change_options(command: Command) -> Command:
    force = click.option("--force", is_flag=True, help="Also change an entry that is not ours.")
    return _update_options(force(command))


def _find_clients(_: click.Context) -> Iterable[tuple[str, str | None]]:
    return ((client.id, client.title) for client in CLIENTS)


_clients: Final = completion.suggesting(_find_clients)


@click.group(
    cls=SubVerbs, epilog=examples("lmtb client add --all", "lmtb client list", "lmtb client remove codex")
)
def client() -> None:
    """Connect coding agents: add this server to their configuration files.

    Comments, order and indentation of the files stay. Every change can be undone.
    """


@client.command(name="list")
@_port_option
@json_option
def list_clients(port: int | None, as_json: bool) -> None:
    """List the known clients: found here, our entry, file.

    A client is found if its program is on the PATH, or its folder exists. ENTRY is `outdated` if update would
    change it, `other` if an entry of our name leads elsewhere, and `unknown` if the file cannot be used.
    """
    files = client_files(port)
    rows = [(client, files.overview(client)) for client in CLIENTS]
    if as_json:
        address = files.endpoint.address()
        print_json({"address": address, "clients": [overview_json(*row) for row in rows]})
        return
    say(client_table(rows))
    problems = [overview.refusal for _, overview in rows if overview.refusal is not None]
    for problem in problems:
        say("", problem.message, f"  -> {problem.next_step}")
    say("", "add one with: lmtb client add CLIENT; any other client: lmtb client show other")


@client.command()
@click.argument("name", metavar="CLIENT", shell_complete=_clients)
@_port_option
@json_option
def show(name: str, port: int | None, as_json: bool) -> None:
    """Show a client's entry, or the one that add would write.

    For a client that is not listed, CLIENT is `other`: shows an entry that most clients understand.
    """
    if name.lower() == "other":
        _show_generic(client_files(port), as_json)
        return
    (client,) = named([name])
    files = client_files(port)
    overview = files.overview(client)
    new_entry = client.entry(files.endpoint)
    if as_json:
        about = {**overview_json(client, overview), "entry": overview.entry, "wanted": new_entry}
        print_json({"name": ENTRY_NAME, "path": list(client.form.path), **about})
        return
    say(f"{client.title}: {short(overview.file)}")
    _show_entry(client, overview, new_entry)
    undo = f"lmtb client remove --undo {client.id}" if overview.can_undo else "not available"
    say("", f"undo: {undo}")


@client.command()
@click.argument("names", metavar="[CLIENT]...", nargs=-1, shell_complete=_clients)
@click.option("--all", "everything", is_flag=True, help="All clients that are installed.")
@click.option(
    "--service/--no-service",
    default=None,
    help="Whether to install the service that starts the manager at login. [default: ask; with --yes, no]",
)
@click.option(
    "--servers/--no-servers",
    default=True,
    help="Whether the servers that these clients start themselves run from here only, as by lmtb adopt.",
)
@click.option(
    "--hook/--no-hook",
    default=True,
    help="Whether clients with hooks are told errors after each edit. [default: hook]",
)
@_change_options
@_port_option
@json_option
def add(
    names: tuple[str, ...],
    everything: bool,
    service: bool | None,
    servers: bool,
    hook: bool,
    **options: Any,
) -> None:
    """Add this server to a client's file, after showing one plan and asking once.

    The clients' names are those of `lmtb client list`. What you added to the entry yourself stays. The plan
    has the servers that the clients start themselves, of your own files and of the projects that are known
    here: they run from here only then, and no project's file changes for colleagues. The hook of a client is
    in a file of its own. Where a client needs a running manager and no service starts it at login, the
    service is part of the question. If a manager runs, each client is then played in the current folder, as
    by `lmtb doctor`.
    """
    force, port = options.pop("force"), options.pop("port")
    clients = named(names)
    files = client_files(port)
    installed = [client for client in CLIENTS if files.is_installed(client)]
    if bool(names) == everything:
        here = (
            f"; found here: {', '.join(client.id for client in installed)}"
            if installed
            else "; see: lmtb client list"
        )
        raise click.UsageError(f"name clients, or use --all{here}")
    if everything:
        clients = installed
    if not clients:
        text = "no known client is installed"
        raise Failure(text, "for any other client: lmtb client show other", reason="no_client")
    options["offer"] = ServiceOffer(service, files.endpoint)
    options["sharing"] = SharingOffer() if servers else None
    clients = with_hooks(clients) if hook else clients
    _changes(files, "add", lambda client: files.plan_addition(client, force=force), options).run(clients)


def offer_clients() -> None:
    """Add all installed clients if the person at the terminal wants that, and none is connected yet.

    A program that we started gets no question: it could answer in place of the person.
    """
    if are_we_own_child():
        return
    files = client_files(None)
    installed = [client for client in CLIENTS if files.is_installed(client)]
    if not installed or any(files.overview(client).state in _OURS for client in CLIENTS):
        return
    say("", f"Found here: {', '.join(client.title for client in installed)}. This would connect them:")
    Changes(
        files,
        "add",
        files.plan_addition,
        yes=False,
        dry_run=False,
        as_json=False,
        offer=ServiceOffer(None, files.endpoint),
        sharing=SharingOffer(),
    ).run(with_hooks(installed))


install = copy(add)
install.name, install.hidden = "install", True
client.add_command(install)


@client.command()
@click.argument("names", metavar="[CLIENT]...", nargs=-1, shell_complete=_clients)
@_update_options
@_port_option
@json_option
def update(names: tuple[str, ...], port: int | None, **options: Any) -> None:
    """Bring our entries up to date: what add writes today, with what you added yourself.

    Without CLIENT, those of all clients that have one. Nothing is added where there is none.
    """
    files = client_files(port)
    clients = named(names) or [client for client in CLIENTS if files.overview(client).state in _OURS]
    clients = [each for each in with_hooks(clients) if each in clients or files.overview(each).entry]
    if not clients:
        raise Failure("no client is configured", "add one with: lmtb client add CLIENT", reason="no_client")
    _changes(files, "update", files.plan_update, options).run(clients)


@client.command()
@click.argument("names", metavar="CLIENT...", nargs=-1, required=True, shell_complete=_clients)
@click.option("--undo", is_flag=True, help="Take the last change of the file back; what others wrote stays.")
@_change_options
@json_option
def remove(names: tuple[str, ...], undo: bool, force: bool, **options: Any) -> None:
    """Take this server out of a client's file, after showing the change."""
    files = client_files(_NO_PORT)
    clients = named(names)
    clients = [each for each in with_hooks(clients) if each in clients or _has_hook(files, each, undo=undo)]
    if undo:
        _changes(files, "undo", files.plan_undo, options).run(clients)
    else:
        _changes(files, "remove", lambda client: files.plan_removal(client, force=force), options).run(
            clients
        )


def _has_hook(files: ClientFiles, hook: Client, *, undo: bool) -> bool:
    """Whether a file with hooks has ours, or a change of it that can be taken back."""
    overview = files.overview(hook)
    return overview.can_undo if undo else overview.entry is not None


def _changes(files: ClientFiles, verb: Any, plan: Any, options: Any) -> Changes:
    return Changes(files, verb, plan, **options)


def _show_entry(client: Client, overview: Overview, new_entry: Entry) -> None:
    refusal = overview.refusal
    if refusal is not None:
        say(Note(refusal.message, Tone.BAD), f"  -> {refusal.next_step}")
    if overview.entry is not None:
        say(f"configured: {configured(overview)}. The entry is:", "")
        click.echo(printable(entry_text(client, overview.entry), lines=True))
    if overview.state == "current":
        return
    verb = "update" if overview.state == "outdated" else "add"
    new_entry = upgraded(overview.entry or {}, new_entry) if verb == "update" else new_entry
    say("", f"`lmtb client {verb} {client.id}` would write:", "")
    click.echo(printable(entry_text(client, new_entry), lines=True))


def _show_generic(files: ClientFiles, as_json: bool) -> None:
    address, program = files.endpoint.address(), entries.program(files.endpoint)
    if as_json:
        print_json({"name": ENTRY_NAME, "http": {"url": address}, "stdio": program})
        return
    say("A client that supports HTTP needs this address:", "", f"  {address}", "")
    say("Add ?cwd= and the client's variable for the project's folder, if it has one.")
    say("", "Most clients without HTTP support understand this:", "")
    click.echo(json.dumps({"mcpServers": {ENTRY_NAME: program}}, indent=2))
