"""The verbs clients and whoami: show who is connected, and how each request found its project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import Failure, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Table, View
from lm_tools_bridge.text.quantities import duration
from manager.cli.output.manager_access import ask
from manager.documentation import page
from manager.routing.resolution import unexpanded
from manager.status_reading import objects, project_names

_STEPS: Final = {
    "path": "the address /w/…/mcp",
    "argument": "an argument of the call",
    "session": "the session's handshake",
    "state": "the call that it continues",
    "query": "?cwd= in the address",
    "header": "the header X-Workspace-Cwd",
    "codex": "the folder Codex works in",
    "roots": "the client's roots",
    "paths": "the paths in its arguments",
    "none": "nothing",
}

_WHOAMI_COLUMNS: Final = (
    Column("REQUEST", Kind.NAME),
    Column("DECIDED BY", Kind.NAME),
    Column("WORKSPACE", Kind.FOLDER),
    Column("CLIENT SENT", Kind.DETAIL),
)


@click.command(epilog=examples("lmtb whoami"))
@json_option
def whoami(as_json: bool) -> None:
    """Show recent clients, and how each of their requests found its workspace.

    The running manager keeps the last five requests of each of the last 64 clients in memory. For who is
    connected, see: lmtb clients.
    """
    clients = objects(ask("/mcp/status"), "clients")
    if as_json:
        print_json({"clients": clients})
        return
    if not clients:
        say("no client has sent a request since the manager started")
        return
    say(*[view for client in reversed(clients) for view in ("", *_client(client))][1:])
    if any(_newest(client).get("source") == "none" for client in clients):
        say("", f"no workspace? how each client can send its folder: {page('clients/setup.md')}")


def _client(client: Mapping[str, Any]) -> tuple[View, ...]:
    words = [client.get("name") or "(unnamed client)", client.get("version")]
    era = "sessions" if client.get("era") == "legacy" else "stateless"
    ago = duration(client.get("lastSeenAgeSec"))
    about = [f"{era} {client.get('protocolVersion')}", f"{ago} ago" if ago else "?"]
    rows = [_row_whoami(request) for request in reversed(objects(client, "requests"))]
    head = f"{' '.join(str(word) for word in words if word)}  ({', '.join(about)})"
    return head, Table(_WHOAMI_COLUMNS, rows, indent=2)


def _row_whoami(request: Mapping[str, Any]) -> tuple[object, ...]:
    sent = request.get("sent")
    sent_texts = [f"{name}={text}" for name, text in sent.items()] if isinstance(sent, dict) else []
    sent_texts += [f"({text})" for text in unexpanded(sent)] if isinstance(sent, dict) else []
    source, overruled, contradiction = (
        request.get(name) for name in ("source", "overruled", "contradiction")
    )
    decided = _STEPS.get(str(source), source)
    if overruled:
        decided = f"{decided}, not {overruled}"
    elif contradiction:
        decided = f"{decided}: {contradiction}"
    return (
        request.get("method"),
        decided,
        request.get("workspace"),
        "  ".join(sent_texts) or None,
    )


def _newest(client: Mapping[str, Any]) -> Mapping[str, Any]:
    requests = objects(client, "requests")
    return requests[-1] if requests else {}


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


@click.command(epilog=examples("lmtb clients", "lmtb clients --all"))
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
    all_clients = objects(status, "clientDetails")
    visible_clients = [client for client in all_clients if everyone or not _is_forgotten(client)]
    if as_json:
        print_json({"connected": status.get("connectedClients"), "clients": visible_clients})
        return
    _print(visible_clients, hidden=len(all_clients) - len(visible_clients))


def _print(visible_clients: list[dict[str, Any]], *, hidden: int) -> None:
    if visible_clients:
        names = project_names(client.get("workspace") for client in visible_clients)
        say(Table(_COLUMNS, [_row(client, names) for client in visible_clients]))
    elif not hidden:
        say("no client has been seen; a stateless client is known from its first request on")
    if hidden:
        say(f"{hidden} more, gone for over an hour: lmtb clients --all")
    if any(
        client.get("source") == "none" and client.get("state") == "connected" for client in visible_clients
    ):
        say(f"no project? how each client can send its folder: {page('clients/setup.md')}")


def _is_forgotten(client: Mapping[str, Any]) -> bool:
    age = client.get("lastCallAgeSec")
    return client.get("state") == "gone" and isinstance(age, int | float) and age > _FORGOTTEN_S


def _row(client: Mapping[str, Any], names: Mapping[str, str]) -> tuple[object, ...]:
    return (
        client.get("name") or "(unnamed client)",
        client.get("version"),
        "session" if client.get("era") == "legacy" else "stateless",
        client.get("state"),
        names.get(str(workspace)) if (workspace := client.get("workspace")) else client.get("folder"),
        client.get("source"),
        client.get("lastCallAgeSec"),
        client.get("sessions") or None,
    )
