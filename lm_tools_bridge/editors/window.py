"""Defines a window of an editor, and reads what windows say about themselves. Pure.

A window serves MCP on a port of this machine. It has no nonce, so its answer about itself must agree with
what was asked: the port, and for a project a folder that contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol.internal.registration import MAX_FOLDERS, MAX_PATH

_PROTOCOL: Final = 1  # the version of discovery that windows speak
RealPath = Callable[[str], Path]


@dataclass(frozen=True, slots=True)
class Window:
    """One window that has a folder of the project open, or a folder above it.

    Attributes:
        port: where it serves MCP, on 127.0.0.1.
        folder: the real path of its folder that contains the project.
        above: how many folders it lies above the project; 0 for the project's own.
        tools: the names of the tools that it offers now.
    """

    port: int
    folder: Path
    above: int = 0
    tools: tuple[str, ...] = field(default=(), compare=False)

    @property
    def url(self) -> str:
        """Its MCP endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def label(self) -> str:
        """The window in the words of messages."""
        return f"the VS Code window of {self.folder} (port {self.port})"


class _Folder(msgspec.Struct):
    path: str


class _Health(msgspec.Struct, rename="camel"):
    """The answer to `GET /mcp/health`, as far as it is needed."""

    ok: bool
    port: int
    workspace_folders: list[_Folder]
    tool_names: list[str] = []


class _Advertisement(msgspec.Struct, rename="camel"):
    """The answer on a discovery socket, as far as it is needed."""

    ok: bool
    protocol_version: int
    target_identity: str
    host: str
    port: int


def of_health(body: bytes, port: int, root: Path, real_path: RealPath) -> Window | None:
    """The window behind a health answer, if it has the project open.

    Args:
        body: the answer.
        port: the port that was asked; a window that names another one is not believed.
        root: the project's folder, link-free.
        real_path: resolves links.
    """
    try:
        health = msgspec.json.decode(body, type=_Health)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not health.ok or health.port != port:
        return None
    paths = [
        folder_entry.path
        for folder_entry in health.workspace_folders[:MAX_FOLDERS]
        if len(folder_entry.path) <= MAX_PATH
    ]
    containing = [folder for folder in map(real_path, paths) if _contains(folder, root)]
    if not containing:
        return None
    folder = max(containing, key=lambda folder_entry: len(folder_entry.parts))
    return Window(port, folder, len(root.parts) - len(folder.parts), tuple(health.tool_names))


def _contains(folder: Path, root: Path) -> bool:
    """Whether a window with this folder is one of the project. A disk or home is no project's folder."""
    is_project_like = len(folder.parts) > 1 and folder not in (Path.home(), Path.home().parent)
    return folder == root or (is_project_like and root.is_relative_to(folder))


def of_advertisement(line: bytes, identity: str) -> int | None:
    """The port that a discovery answer names; None if it is about another window or is no answer."""
    try:
        advertisement = msgspec.json.decode(line, type=_Advertisement)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    is_ours = (
        advertisement.ok
        and advertisement.protocol_version == _PROTOCOL
        and advertisement.target_identity == identity
    )
    is_here = advertisement.host in ("127.0.0.1", "localhost", "::1") and 0 < advertisement.port < 65536
    return advertisement.port if is_ours and is_here else None


def discovery_request(identity: str, session: str) -> bytes:
    """The line that asks on a discovery socket; `session` names who asks."""
    members: Mapping[str, Any] = {
        "op": "discover",
        "protocolVersion": _PROTOCOL,
        "managerSessionId": session,
        "targetIdentity": identity,
    }
    return msgspec.json.encode(members) + b"\n"


def in_order(windows: Iterable[Window]) -> Sequence[Window]:
    """Each window once, the most fitting first: its folder is nearest to the project, then its port."""
    by_port = {window.port: window for window in windows}
    return sorted(by_port.values(), key=lambda window: (window.above, window.port))
