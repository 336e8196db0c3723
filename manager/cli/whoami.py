"""The verb whoami: shows recent clients, and how each of their requests found its workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from host.command_line import json_option, print_json
from host.printable import printable
from manager.cli.output.manager_access import ask
from manager.cli.output.responses import objects
from manager.cli.output.text import duration, table
from manager.documentation import page

_STEPS: Final = {
    "path": "the address /w/…/mcp",
    "argument": "an argument of the call",
    "session": "the session's handshake",
    "query": "?cwd= in the address",
    "header": "the header X-Workspace-Cwd",
    "codex": "the folder Codex works in",
    "roots": "the client's roots",
    "none": "nothing",
}


@click.command()
@json_option
def whoami(as_json: bool) -> None:
    """Show recent clients, and how each of their requests found its workspace.

    The running manager keeps the last five requests of each of the last 64 clients in memory. For who is
    connected, see: lmtb clients.
    """
    found = objects(ask("/mcp/status"), "clients")
    if as_json:
        print_json({"ok": True, "clients": found})
        return
    if not found:
        click.echo("no client has sent a request since the manager started")
        return
    click.echo("\n\n".join(_client(one) for one in reversed(found)))
    if any(_newest(one).get("source") == "none" for one in found):
        click.echo(f"\nno workspace? how each client can send its folder: {printable(page('clients'))}")


def _client(client: Mapping[str, Any]) -> str:
    words = [client.get("name") or "(unnamed client)", client.get("version")]
    era = "sessions" if client.get("era") == "legacy" else "stateless"
    ago = duration(client.get("lastSeenAgeSec"))
    about = [f"{era} {client.get('protocolVersion')}", f"{ago} ago" if ago else "?"]
    head = printable(f"{' '.join(str(word) for word in words if word)}  ({', '.join(about)})")
    heads = ("  REQUEST", "WORKSPACE", "DECIDED BY", "CLIENT SENT")
    rows = [_row(one) for one in reversed(objects(client, "requests"))]
    return f"{head}\n{table(heads, rows, flexible=('WORKSPACE', 'CLIENT SENT'))}"


def _row(request: Mapping[str, Any]) -> tuple[object, ...]:
    sent = request.get("sent")
    said = [f"{name}={text}" for name, text in sent.items()] if isinstance(sent, dict) else []
    source = request.get("source")
    return (
        f"  {request.get('method')}",
        request.get("workspace"),
        _STEPS.get(str(source), source),
        "  ".join(said) or None,
    )


def _newest(client: Mapping[str, Any]) -> Mapping[str, Any]:
    requests = objects(client, "requests")
    return requests[-1] if requests else {}
