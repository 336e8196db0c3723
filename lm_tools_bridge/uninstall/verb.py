"""The verb uninstall: asks per group, stops the manager, removes, and says what remains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lm_tools_bridge.machine.private_folder import remove
from lm_tools_bridge.terminal.command_line import Failure, confirm, examples, json_option, print_json, say
from lm_tools_bridge.text.printable import printable
from lm_tools_bridge.uninstall.inventory import Group, groups, own_files, remains
from manager.cli.output.manager_access import user_paths
from manager.cli.service.facts import gather
from manager.cli.service.plan import Plan, removal
from manager.cli.service.verb import carry_out, show
from manager.cli.stop import stop
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.features import has_feature

if TYPE_CHECKING:
    from lm_tools_bridge.client_setup.adoption.moved_servers import MovedServers
    from lm_tools_bridge.client_setup.workbench import ClientEntries

_SECRETS_S: Final = 60.0
"""A locked keyring asks a person for its password."""


@click.command(epilog=examples("lmtb uninstall"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask; keeps secrets unless --secrets is given.")
@click.option("--secrets", "with_secrets", is_flag=True, help="Remove stored tokens and logins, too.")
@json_option
def uninstall(yes: bool, with_secrets: bool, as_json: bool) -> None:
    """Remove everything that this program made.

    That is the service, its entries in the files of clients, logs, state, sockets, and, if you say so,
    secrets. Servers that "lmtb adopt" moved go back to where they were. Lists each group and asks. Stops the
    manager first. Your settings, your projects and the program itself stay.
    """
    if as_json and not yes:
        raise Failure(
            "this removes files, and with --json nothing is asked",
            "repeat it with --yes",
            reason="not_confirmed",
        )
    paths = user_paths()
    service = removal(gather().seen)
    wants_service = not service.is_empty and _wants_service(service, yes=yes)
    moved = _moved_servers(paths)
    goes_back = moved is not None and _has_places(moved) and _wants_back(moved, yes=yes)
    entries = _client_entries(paths)
    wants_entries = entries is not None and bool(entries.planned) and _wants_entries(entries, yes=yes)
    every = groups(paths, Path.home(), keeps_undo=_has_places(moved) and not goes_back)
    group_names = [group.name for group in every if _is_wanted(group, yes=yes, secrets=with_secrets)]
    if wants_service:
        carry_out(service)
    removed = ["service"] if wants_service else []
    removed += _put_back(moved) if moved is not None and goes_back else []
    if wants_entries:
        entries = _client_entries(paths)  # servers that went back are in the same files
        removed += _remove_entries(entries)
    if group_names:
        _stop_manager(paths)
    _remove(group_names, paths, keeps_undo=_has_places(moved))
    removed += group_names
    if not removed:
        say("nothing was removed")
    left = [*(moved.left() if moved is not None else ()), *_what_remains(paths, entries)]
    if as_json:
        print_json({"removed": removed, "left": left})
    say("", "what remains:", *(f"  {line}" for line in left))


def _put_back(moved: MovedServers) -> list[str]:
    names = list(moved.put_back())
    for name in names:
        say(printable(f"put back: the servers of {name}"))
    return [f"the moved servers of {name}" for name in names]


def _remove_entries(entries: ClientEntries | None) -> list[str]:
    titles = [] if entries is None else list(entries.remove())
    for title in titles:
        say(f"removed: the entry of {title}")
    return [f"the entry of {title}" for title in titles]


def _wants_service(plan: Plan, *, yes: bool) -> bool:
    say("service (starts the manager at login):")
    show(plan)
    return yes or _confirm("Remove the service?")


def _moved_servers(paths: Paths) -> MovedServers | None:
    """What `lmtb adopt` moved; None without the part of this program that does."""
    if not has_feature("client_setup"):
        return None
    from lm_tools_bridge.client_setup.adoption.moved_servers import MovedServers

    return MovedServers.find_all(paths, Path.home())


def _wants_back(moved: MovedServers, *, yes: bool) -> bool:
    say("servers (moved by lmtb adopt; without this program, no client starts them):")
    for name, _ in moved.places:
        say(printable(f"  {name}"))
    return yes or _confirm("Put these servers back where they were?")


def _has_places(moved: MovedServers | None) -> bool:
    """Whether servers are not where they were: their undo data stays."""
    return moved is not None and bool(moved.places)


def _client_entries(paths: Paths) -> ClientEntries | None:
    """The entries in files of clients; None without the part of this program that writes them."""
    if not has_feature("client_setup"):
        return None
    from lm_tools_bridge.client_setup.workbench import ClientEntries

    return ClientEntries.find_all(paths, Path.home())


def _wants_entries(entries: ClientEntries, *, yes: bool) -> bool:
    say("clients (entries that connect them to this server):")
    for client, plan, _ in entries.planned:
        is_new = " (the file that was made for it)" if plan.after is None else ""
        say(printable(f"  {client.title}: {plan.state.path}{is_new}"))
    return yes or _confirm("Remove these entries?")


def _is_wanted(group: Group, *, yes: bool, secrets: bool) -> bool:
    say(f"{group.name} ({group.meaning}):")
    for entry in group.entries:
        say(printable(f"  {entry}"))
    if not group.is_secret:
        return yes or _confirm(f"Remove {group.name}?")
    if secrets:
        return True
    if yes:
        say("  kept; to remove them: lmtb uninstall --secrets")
        return False
    if not _confirm("Remove secrets? They cannot be restored."):
        return False
    return click.prompt("Type yes to remove all stored tokens and logins", default="no") == "yes"


def _confirm(question: str) -> bool:
    return confirm(question, "this removes files", piped=True)


def _stop_manager(paths: Paths) -> None:
    """Stop a manager that runs; one that does not stop keeps everything.

    Raises:
        Failure: it does not stop, or systemd would start it again.
    """
    if _runs(paths):
        click.get_current_context().invoke(stop)
    if _runs(paths):
        step = "remove the service as well, or: systemctl --user stop lm-tools-bridge.socket"
        raise Failure("a manager was started again, so nothing was removed", step)


def _runs(paths: Paths) -> bool:
    try:
        Control(paths.control_socket).get("/health")
    except NoManager:
        return False
    except (ManagerFault, ControlRefusal):
        return True
    return True


def _remove(group_names: list[str], paths: Paths, *, keeps_undo: bool) -> None:
    """Remove the groups of these names, as they are now: a stop and the secret store change files."""
    if "secrets" in group_names:
        _empty_keyring(paths)
    for group in groups(paths, Path.home(), keeps_undo=keeps_undo):
        if group.name in group_names:
            _remove_group(group)
            say(f"removed: {group.name}")


def _remove_group(group: Group) -> None:
    try:
        for entry in group.entries:
            if group.is_whole:
                remove(entry)  # package managers close folders to themselves
                continue
            for file in own_files(entry):
                file.unlink(missing_ok=True)
            _remove_empty(entry)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}", "remove it yourself, then try again") from error
    for folder in group.folders:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _remove_empty(entry: Path) -> None:
    """Remove a folder and those in it, as far as they are empty by now: files of others keep theirs."""
    for folder, _, _ in os.walk(entry, topdown=False):
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()


def _empty_keyring(paths: Paths) -> None:
    """Delete each secret through its store, which knows whether the desktop's keyring holds it."""
    output = _secrets(paths, "list", "--json")
    for key in _keys(output.stdout) if output is not None else ():
        done = _secrets(paths, "delete", key)
        if done is None or done.returncode:
            why = "no answer" if done is None else done.stderr.strip()
            say(f"warning: the secret {key} is not deleted: {why}", err=True)


def _secrets(paths: Paths, *words: str) -> subprocess.CompletedProcess[str] | None:
    """Run a verb of the secret store; None if it does not end in time, as with a locked keyring."""
    folders = {"config": paths.config_dir, "state": paths.state_dir, "runtime": paths.runtime_dir}
    options = [word for name, folder in folders.items() for word in (f"--{name}-dir", os.fspath(folder))]
    try:
        return subprocess.run(
            [sys.executable, "-I", "-m", "workspace_server.command", *options, "secrets", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECRETS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _keys(output: str) -> list[str]:
    try:
        keys = json.loads(output).get("keys", [])
    except (ValueError, AttributeError):
        return []
    return [key for key in keys if isinstance(key, str)]


def _what_remains(paths: Paths, entries: ClientEntries | None) -> Iterator[str]:
    if service := gather().seen.found:
        yield f"the service: {next(iter(service)).parent}"
    for group in groups(paths, Path.home()):
        yield f"{group.name}: {', '.join(map(str, group.entries))}"
    yield from () if entries is None else entries.left()
    yield from remains(paths)
