"""Answers `resources/read` for the manager's own resources."""

from __future__ import annotations

from manager.answers import result_format
from manager.answers.exchange import Exchange, Located, Plain
from manager.routing.discovery.own_tools import CALL_TOOL_TEXT
from protocol import jsonrpc, names


def read_own(exchange: Exchange, located: Located | None) -> Plain | None:
    """The result of reading one of the manager's resources; None if the URI names another resource."""
    uri = exchange.inbound.name
    if uri == names.URI_CALL_TOOL:
        text = CALL_TOOL_TEXT
    elif uri == names.URI_HANDSHAKE:
        text = _handshake_text(exchange, located)
    else:
        return None
    contents = [{"uri": uri, "mimeType": "text/plain", "text": text}]
    return Plain(result_format.result(exchange, {"contents": contents}))


def _handshake_text(exchange: Exchange, located: Located | None) -> str:
    """How to perform a handshake, and this client's current state. Reading it starts no server."""
    session = exchange.session
    instance = located.workspace.supervisor.instance if located is not None else None
    serving = located is not None and located.workspace.supervisor.lifecycle.is_serving
    snapshot = {
        "ready": instance is not None and serving,
        "online": instance is not None and serving,
        "workspaceSetExplicitly": session is not None and session.workspace is not None,
        "workspace": None if located is None else located.workspace.id,
        "cwd": None if session is None else session.cwd,
        "offlineDurationSec": None,
        "target": None
        if instance is None
        else {"sessionId": instance.id, "host": instance.host, "port": instance.port},
    }
    return (
        f"Call {names.HANDSHAKE} with {{ cwd: string }}, the absolute path of your project.\n"
        f"Then call tools by name, or through {names.CALL_TOOL}.\n"
        f"Status snapshot:\n{jsonrpc.dumps(snapshot).decode()}\n"
    )
