"""Tells which program is on the manager's port: a manager of ours, or the VS Code extension LM Tools Bridge.

The extension has a manager of its own, which wants the same port, and each of its windows serves one, too.
"""

from __future__ import annotations

import http
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from lm_tools_bridge.text.printable import printable

ANSWER_S: Final = 1.0
"""Programs on this machine answer in milliseconds; one that does not speak HTTP may keep silent, and is asked
for several paths."""
MAX_ANSWER: Final = 512 * 1024
"""A status grows by kilobytes with each workspace. What a stranger sends beyond this is not read."""
MAX_NAMED: Final = 3  # folders: the finding stays one line
MAX_FOLDER: Final = 200  # characters, from a stranger; a longer path would fill the terminal
MAX_VERSION: Final = 40  # characters, from a stranger; versions have about ten
_MANAGER: Final = (
    'set "lmToolsBridge.manager.httpPort" to another port in the settings of VS Code, and reload its windows.'
    " Their tools are found without that manager"
)
_WINDOW: Final = 'set "lmToolsBridge.server.port" to 48123 in the settings of VS Code, and reload the window'


def manager_on(port: int) -> tuple[str, str] | None:
    """A manager of this program that serves on this port, and how to end it; None for other programs.

    The caller has found none by the paths of this environment.
    """
    if _ask_object(port, "/mcp/health") != {"ok": True}:
        return None
    status = _ask_object(port, "/mcp/status")
    pid, version = status.get("pid"), status.get("version")
    if not _is_ours(status) or not isinstance(pid, int):
        return None
    text = f"a manager of this program (pid {pid}, version {printable(version)[:MAX_VERSION]})"
    return f"{text}, which was started with another HOME or LMTB_RUNTIME_DIR", f"to end it: kill {pid}"


def extension_on(port: int) -> tuple[str, str] | None:
    """Which part of the extension serves on this port, and what to change; None for other programs."""
    status = _ask_object(port, "/mcp/status")
    instances = status.get("instanceDetails")
    if isinstance(instances, list) and "version" in status and not _is_ours(status):
        folders = [
            folder for window in instances if isinstance(window, Mapping) for folder in _folders(window)
        ]
        text = f"the manager of the VS Code extension LM Tools Bridge{_of(folders)}"
        return text, _MANAGER
    health = _ask_object(port, "/mcp/health")
    if isinstance(health.get("workspaceFolders"), list) and isinstance(health.get("toolNames"), list):
        return f"a VS Code window with the extension LM Tools Bridge{_of(list(_folders(health)))}", _WINDOW
    return None


def _is_ours(status: Mapping[str, Any]) -> bool:
    """Whether a manager of this program says this; the extension's has the same members otherwise."""
    return isinstance(status.get("installation"), Mapping)


def _of(folders: list[str]) -> str:
    names = ", ".join(dict.fromkeys(folders[:MAX_NAMED]))
    return f", of the window with {names}" if names else ""


def _folders(window: Mapping[str, Any]) -> Iterator[str]:
    folders = window.get("workspaceFolders")
    for folder in folders if isinstance(folders, list) else []:
        path = folder.get("path") if isinstance(folder, Mapping) else folder
        if isinstance(path, str) and path.isprintable() and len(path) <= MAX_FOLDER:
            yield path


def _ask_object(port: int, path: str) -> Mapping[str, Any]:
    """The JSON object at a path; an empty one for any other answer. Takes at most `ANSWER_S`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    timer: threading.Timer | None = None
    try:
        connection.connect()
        timer = threading.Timer(ANSWER_S, _stop, [connection.sock])
        timer.daemon = True
        timer.start()
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read(MAX_ANSWER)
        document = json.loads(body) if answer.status == http.HTTPStatus.OK else {}
        return document if isinstance(document, dict) else {}
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return {}
    finally:
        if timer is not None:
            timer.cancel()
        with suppress(OSError):
            connection.close()


def _stop(sock: socket.socket) -> None:
    """Time-outs of sockets are about single reads; this ends all of them."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
