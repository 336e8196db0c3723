"""The verb whoami: shows recent clients, and how each of their requests found its workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import json_option, print_json, say
from lm_tools_bridge.terminal.quantities import duration
from lm_tools_bridge.terminal.views import Column, Kind, Table, View
from manager.cli.output.manager_access import ask
from manager.documentation import page
from manager.routing.workspace.unexpanded import unexpanded
from manager.status_reading.responses import objects

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

_COLUMNS: Final = (
    Column("REQUEST", Kind.NAME),
    Column("DECIDED BY", Kind.NAME),
    Column("WORKSPACE", Kind.FOLDER),
    Column("CLIENT SENT", Kind.DETAIL),
)


@click.command()
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
        say("", f"no workspace? how each client can send its folder: {page('clients')}")


def _client(client: Mapping[str, Any]) -> tuple[View, ...]:
    words = [client.get("name") or "(unnamed client)", client.get("version")]
    era = "sessions" if client.get("era") == "legacy" else "stateless"
    ago = duration(client.get("lastSeenAgeSec"))
    about = [f"{era} {client.get('protocolVersion')}", f"{ago} ago" if ago else "?"]
    rows = [_row(request) for request in reversed(objects(client, "requests"))]
    head = f"{' '.join(str(word) for word in words if word)}  ({', '.join(about)})"
    return head, Table(_COLUMNS, rows, indent=2)


def _row(request: Mapping[str, Any]) -> tuple[object, ...]:
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
