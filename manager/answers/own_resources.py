"""Answers `resources/read` for the manager's own resources."""

from __future__ import annotations

from typing import Any

from lm_tools_bridge.protocol import jsonrpc, names
from manager.answers import result_format
from manager.answers.exchange import Exchange, Located, Plain
from manager.answers.handshake import public_health
from manager.routing.discovery.own_tools import CALL_TOOL_TEXT
from manager.supervision import presence
from manager.supervision.workspaces import Workspaces


def read_own(exchange: Exchange, located: Located | None, workspaces: Workspaces) -> Plain | None:
    """The result of reading one of the manager's resources; None if the URI names another resource."""
    uri = exchange.inbound.name
    if uri == names.URI_CALL_TOOL:
        text = CALL_TOOL_TEXT
    elif uri == names.URI_HANDSHAKE:
        snapshot = _snapshot(exchange, located, workspaces)
        text = (
            f"Call {names.HANDSHAKE} with {{ cwd: string }}, the absolute path of your project.\n"
            f"Then call tools by name, or through {names.CALL_TOOL}.\n"
            f"Status snapshot:\n{jsonrpc.dumps(snapshot).decode()}\n"
        )
    else:
        return None
    contents = [{"uri": uri, "mimeType": "text/plain", "text": text}]
    return Plain(result_format.result(exchange, {"contents": contents}))


def _snapshot(exchange: Exchange, located: Located | None, workspaces: Workspaces) -> dict[str, Any]:
    """The client's current state, whoever started its server. Reading it starts no server."""
    session = exchange.session
    workspace = None if located is None else located.workspace
    instance = None if workspace is None else presence.serving(workspaces, workspace)
    since = None if workspace is None else presence.offline_since(workspaces, workspace)
    snapshot: dict[str, Any] = {
        "ready": instance is not None,
        "online": instance is not None,
        "workspaceSetExplicitly": session is not None and session.workspace is not None,
        "workspace": None if workspace is None else workspace.id,
        "cwd": None if session is None else session.cwd,
        "offlineDurationSec": None if since is None else int(workspaces.registered_servers.now() - since),
        "target": None if instance is None else presence.target_of(instance),
    }
    if instance is not None:
        snapshot["health"] = {"ok": True, "status": 200, "data": public_health(instance)}
    return snapshot
