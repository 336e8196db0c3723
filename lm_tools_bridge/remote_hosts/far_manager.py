"""Asks the manager on another host about a project there, and reads its answers with suspicion.

Nothing that it writes stands in a refusal: models read those as our words.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.remote_hosts.address import RemoteAddress
from lm_tools_bridge.remote_hosts.line_failures import FailureKind, LineFailure
from lm_tools_bridge.remote_hosts.link import Link
from lm_tools_bridge.remote_hosts.refusals import line_refusal
from lm_tools_bridge.text.printable import printable
from manager.routing.cwd import MAX_BYTES
from manager.supervision.refusals import server_offline
from manager.upstream.failures import UpstreamFailure

MAX_ID: Final = 64
"""Longest id of a workspace, in characters, that another host may name."""
MAX_RETRY_MS: Final = 600_000
"""Ten minutes: another host must not make callers wait for ever."""
_CAUSE: Final = re.compile(r"[a-z_]{1,40}")
"""A cause as this program names them: no sentence."""


class Match(msgspec.Struct, rename="camel"):
    """A workspace as the manager there sees it."""

    workspace: str
    workspace_folders: tuple[str, ...]


class _Resolved(msgspec.Struct):
    match: Match


class _Details(msgspec.Struct):
    cause: str


class _Offline(msgspec.Struct, rename="camel"):
    """What the manager there says of a server that it cannot start."""

    details: _Details
    retry_after_ms: int = 1000


async def resolve(link: Link, address: RemoteAddress) -> Match | Refusal:
    """Ask the manager on the host for the workspace of a folder.

    Returns:
        The refusal if the folder is in no workspace or cannot be used, or the manager did not answer.
    """
    try:
        status, body = await link.ask("/resolve", {"cwd": address.path})
    except UpstreamFailure as failure:
        return line_refusal(link, LineFailure(FailureKind.CUT), cause=failure.cause)
    if status == 200:
        try:
            match = msgspec.json.decode(body, type=_Resolved).match
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return line_refusal(link, LineFailure(FailureKind.CANNOT_SERVE))
        if _is_usable(match):
            return match
    if status == 404:
        text = f"workspace not matched: {address}"
        return Refusal(Reason.WORKSPACE_NOT_MATCHED, text, delivered="no", details={"cwd": str(address)})
    if status == 400:
        text = f"cwd cannot be used on {link.host}: {address.path[:200]}"
        step = "pass a folder that exists on that host"
        return Refusal(Reason.INVALID_CWD, text, step, delivered="no", details={"cwd": str(address)})
    return line_refusal(link, LineFailure(FailureKind.CANNOT_SERVE))


def _is_usable(match: Match) -> bool:
    """Whether the texts of the other host can stand in ours: people and models read them as our words."""
    root = match.workspace_folders[0] if match.workspace_folders else ""
    is_plain = all(printable(text) == text for text in (root, match.workspace))
    return (
        is_plain
        and root.startswith("/")
        and len(root.encode()) <= MAX_BYTES
        and len(match.workspace) <= MAX_ID
    )


async def make_ready(link: Link, address: RemoteAddress, workspace: str) -> Refusal | None:
    """Let the manager on the host start the server of a project now, as a handshake there would.

    Returns:
        The refusal if that server cannot be started; None if it runs, or if that manager is too old to tell.
    """
    try:
        status, body = await link.ask("/ready", {"cwd": address.path})
    except UpstreamFailure as failure:
        return line_refusal(link, LineFailure(FailureKind.CUT), cause=failure.cause)
    if status != 503:
        return None
    try:
        offline = msgspec.json.decode(body, type=_Offline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return line_refusal(link, LineFailure(FailureKind.CANNOT_SERVE))
    cause = offline.details.cause if _CAUSE.fullmatch(offline.details.cause) else "offline"
    return server_offline(workspace, cause, retry_after_ms=min(max(offline.retry_after_ms, 0), MAX_RETRY_MS))
