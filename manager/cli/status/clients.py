"""The verb clients: shows who is connected, in which project, and how each project was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Failure, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Table
from manager.cli.output.manager_access import ask
from manager.documentation import page
from manager.status_reading.responses import objects

_FORGOTTEN_S: Final = 3600
"""Seconds after its last call for which a client that is gone is listed."""
_COLUMNS: Final = (
    Column("CLIENT"),
    Column("VERSION", rank=3),
    Column("ERA", Kind.NAME, rank=5),
    Column("STATE", Kind.STATE),
    Column("PROJECT", Kind.FOLDER),
    Column("DECIDED BY", Kind.NAME, rank=2),
    Column("LAST CALL", Kind.AGO, rank=1),
    Column("SESSIONS", Kind.NUMBER, rank=4),
)


@click.command()
@click.option(
    "--all", "everyone", is_flag=True, help="Also list clients that have been gone for over an hour."
)
@json_option
def clients(everyone: bool, as_json: bool) -> None:
    """List the clients that were seen lately, and the project of each.

    \b
    connected  an open stream, an open call, or a request in the last 5 minutes
    idle       silent for up to 15 minutes
    gone       silent for longer, an ended process or session, or a call by `lmtb`

    Sessions of the same client in the same project that are gone are one row with their number. All
    stateless clients of the same name, version and project are one row: they say no more about themselves.
    """
    status = ask("/mcp/status")
    if "clientDetails" not in status:
        text = "the running manager is older than this command and does not list clients"
        raise Failure(text, "change over with: lmtb restart", reason="old_manager")
    known = objects(status, "clientDetails")
    shown = [one for one in known if everyone or not _is_forgotten(one)]
    if as_json:
        print_json({"connected": status.get("connectedClients"), "clients": shown})
        return
    _print(shown, hidden=len(known) - len(shown))


def _print(shown: list[dict[str, Any]], *, hidden: int) -> None:
    if shown:
        say(Table(_COLUMNS, [_row(one) for one in shown]))
    elif not hidden:
        say("no client has been seen; a stateless client is known from its first request on")
    if hidden:
        say(f"{hidden} more, gone for over an hour: lmtb clients --all")
    if any(one.get("source") == "none" and one.get("state") == "connected" for one in shown):
        say(f"no project? how each client can send its folder: {page('clients')}")


def _is_forgotten(client: Mapping[str, Any]) -> bool:
    age = client.get("lastCallAgeSec")
    return client.get("state") == "gone" and isinstance(age, int | float) and age > _FORGOTTEN_S


def _row(client: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        client.get("name") or "(unnamed client)",
        client.get("version"),
        "session" if client.get("era") == "legacy" else "stateless",
        client.get("state"),
        client.get("workspace") or client.get("folder"),
        client.get("source"),
        client.get("lastCallAgeSec"),
        client.get("sessions") or None,
    )
