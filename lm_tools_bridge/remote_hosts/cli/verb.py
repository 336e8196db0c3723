"""The verb remote: adds, lists, checks and removes the hosts whose projects this manager reaches."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.machine.private_files import make_private
from lm_tools_bridge.remote_hosts.address import InvalidAddress, is_name
from lm_tools_bridge.remote_hosts.cli.hosts import host_named, log_out, login_of, user_hosts
from lm_tools_bridge.remote_hosts.known_hosts import (
    COMMAND,
    KnownHost,
    add_host,
    command_words,
    find_entry,
    login_socket,
    parse_host,
    remove_host,
)
from lm_tools_bridge.remote_hosts.line_failures import FailureKind
from lm_tools_bridge.remote_hosts.transports import login
from lm_tools_bridge.terminal.command_line import (
    Failure,
    SubVerbs,
    confirm,
    examples,
    json_option,
    print_json,
    say,
    to_the_user,
)
from lm_tools_bridge.terminal.views import Column, Fact, FactList, Table
from lm_tools_bridge.text.quantities import latency
from manager import __version__, exit_codes
from manager.cli.output.manager_access import explained, user_paths
from manager.client import Control

PERSIST_S: Final = 8 * 3600
"""A working day: a person types the password once."""
CHECK_S: Final = 60.0
"""A line that has to be made first takes up to 30 s until its greeting."""


@click.group(cls=SubVerbs, epilog=examples("lmtb remote add build ssh://ada@build/", "lmtb remote list"))
def remote() -> None:
    """Reach projects on other hosts: over ssh, and in containers.

    A host has to be added once. Its projects are then named like this: ssh://ada@build/srv/app, or
    build:/srv/app. The host needs this program, but no port.
    """


@remote.command()
@click.argument("name")
@click.argument("address")
@click.option("--command", default=None, help="The words that run this program there. [default: lmtb]")
@json_option
def add(name: str, address: str, command: str | None, as_json: bool) -> None:
    """Allow connections to a host, and give it a name."""
    if not is_name(name):
        step = "use two or more letters, digits, '.', '_' and '-', such as: lmtb remote add build ssh://ada@build/"
        raise Failure(f'"{name}" cannot be the name of a host', step)
    host = parse_host(address)
    if isinstance(host, InvalidAddress):
        raise Failure(f"{address} cannot be used: {host.problem}", "name a host, such as ssh://ada@build/")
    words = command_words(COMMAND if command is None else command)
    if words is None:
        raise Failure(f"{command!r} is no command", "leave --command out, or name the program there")
    hosts = user_hosts()
    if (other := find_entry(hosts, host)) is not None and other.name != name:
        raise Failure(f"{host} is added already, as {other.name}", f"use {other.name}:/path")
    folder = user_paths().config_dir
    make_private(folder)
    add_host(folder, KnownHost(name, host, words))
    _lines(forget=True)
    if (old := hosts.get(name)) is not None and old.host != host:
        log_out(old)
    if as_json:
        print_json({"name": name, "address": str(host)})
        return
    say(f"added {name}: {host}; its projects are {name}:/path and {host}/path")
    say(f"check it with: lmtb remote status {name}")


@remote.command("list")
@json_option
def list_hosts(as_json: bool) -> None:
    """List the hosts that were added."""
    hosts = user_hosts()
    rows = [{"name": entry.name, "address": str(entry.host), "command": shlex.join(entry.command)}
            for entry in hosts.values()]  # fmt: skip
    if as_json:
        print_json({"hosts": rows})
    elif not rows:
        say("no host is added; add one with: lmtb remote add NAME ssh://HOST/")
    else:
        columns = (Column("name"), Column("address"), Column("command"))
        say(Table(columns, [tuple(row.values()) for row in rows]))


@remote.command()
@click.argument("name")
@click.option("--uninstall", is_flag=True, help="Also uninstall this program there, with uv.")
@json_option
def remove(name: str, uninstall: bool, as_json: bool) -> None:
    """Allow no more connections to a host, and end the login of `lmtb remote connect`."""
    from lm_tools_bridge.remote_hosts.cli.installing import uninstall_there

    entry = host_named(name)
    if uninstall:
        uninstall_there(entry, login_of(entry))
    remove_host(user_paths().config_dir, name)
    _lines(forget=True)
    log_out(entry)
    if as_json:
        print_json({"name": name})
    else:
        say(f"removed {name}")


@remote.command()
@click.argument("name", required=False)
@json_option
def status(name: str | None, as_json: bool) -> None:
    """Show the lines to hosts; with a NAME, connect to that host and say what is wrong, if anything."""
    entry = None if name is None else host_named(name)
    lines = _lines(connect=None if entry is None else entry.name)
    if entry is not None:
        lines = [line for line in lines if line["name"] == entry.name]
    if as_json:
        print_json({"lines": lines})
    elif not lines:
        say("no line is used; with a name, this verb makes one: lmtb remote status NAME")
    for line in [] if as_json else lines:
        say(FactList(_facts(line)))
    if entry is not None and not any(line["state"] == "connected" for line in lines):
        sys.exit(exit_codes.FAILED)


@remote.command()
@click.argument("name")
def connect(name: str) -> None:
    """Log in to a host at this terminal, where it can ask for a password or show its key.

    Later connections use this login for eight hours.
    """
    entry = host_named(name)
    socket = login_socket(user_paths().runtime_dir, entry.host)
    make_private(socket.parent)
    command = login(entry.host, str(socket), PERSIST_S)
    if command is None:
        raise Failure(f"{entry.host} needs no login of ours", f"check it with: lmtb remote status {name}")
    code = subprocess.run(command, check=False).returncode
    if code:
        raise Failure(f"ssh ended with {code}", "correct what it says", exit_code=exit_codes.FAILED)
    say(f"logged in to {entry.host}; check it with: lmtb remote status {name}")


@remote.command()
@click.argument("name")
@click.option("--wheels", type=click.Path(exists=True, file_okay=False, path_type=Path), default=None,
              help="Install offline: the wheel of this version, and all that it needs.")  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def install(name: str, wheels: Path | None, yes: bool) -> None:
    """Install the program that runs here on a host, with uv, or upgrade it there.

    Its own wheel is carried over; what it needs comes from the package index of that host, or from --wheels.
    """
    from lm_tools_bridge.remote_hosts.cli.installing import install_there, restart_there

    entry = host_named(name)
    what = f"this program, {__version__}, on {entry.host}, for your user there"
    if not yes and not confirm(f"Install {what}?", "installs a program on another host"):
        raise Failure("nothing was installed", "run it again when you want that")
    install_there(entry, login_of(entry), __version__, wheels)
    if not restart_there(entry, login_of(entry)):
        raise Failure(f"installed {what}, but the manager there does not restart", "run there: lmtb restart")
    _lines(renew=name)
    say(f"installed {what}; check it with: lmtb remote status {name}")


@remote.command()
def serve() -> None:
    """Serve this user's manager over standard input and output. A manager on another host runs it."""
    from lm_tools_bridge.remote_hosts.cli.serving import serve_line

    sys.exit(serve_line())


def _lines(**payload: object) -> list[dict[str, Any]]:
    """The lines of the running manager; none if no manager runs and none has to be made."""
    sent = {key: value for key, value in payload.items() if value is not None}
    try:
        with explained():
            answer = Control(user_paths().control_socket, CHECK_S).post("/lines", sent)
    except Failure as failure:
        if failure.reason == "no_manager" and "connect" not in sent:
            return []
        raise
    return list(answer["lines"])


def _cause(line: Mapping[str, Any]) -> dict[str, str]:
    """Why there is no line, and what helps; the word alone where another version sent it."""
    if line["cause"] is None:
        return {}
    kind = next((kind for kind in FailureKind if kind.word == line["cause"]), None)
    if kind is None:
        return {"cause": str(line["cause"])}
    step = to_the_user(kind.next_step.format(name=line["name"]))
    cause = {"cause": kind.text.format(host=line["address"])}
    return cause if "lmtb remote status" in step else {**cause, "next step": step}


def _facts(line: Mapping[str, Any]) -> list[Fact]:
    there = f"{line['user']} on {line['machine']}" if line["machine"] else None
    texts = {
        "host": f"{line['name']} ({line['address']})",
        "state": line["state"],
        "latency": latency(line["latencyMs"]),
        "there": there,
        "version": line["version"],
        **_cause(line),
        "said": "\n".join(line["said"]) or None,
    }
    return [Fact(label, str(value)) for label, value in texts.items() if value is not None]
