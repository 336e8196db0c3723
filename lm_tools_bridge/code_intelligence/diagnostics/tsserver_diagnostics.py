"""Asks TypeScript's own server, behind the servers that wrap it, for a file's diagnostics at this moment.

The wrappers publish diagnostics without a version, and not at all if a file stays without any. They pass
requests on, which that server answers in order with the changes of files. Pure but for the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.peer import Peer
from lm_tools_bridge.code_intelligence.server import RequestFailed

COMMAND: Final = "typescript.tsserverRequest"
_EXECUTE: Final = "workspace/executeCommand"
_KINDS: Final = ("syntacticDiagnosticsSync", "semanticDiagnosticsSync", "suggestionDiagnosticsSync")
_SEVERITIES: Final = {"error": 1, "warning": 2, "message": 3, "suggestion": 4}
# tags of LSP's DiagnosticTag
_UNNECESSARY: Final = 1
_DEPRECATED: Final = 2
MAX_ITEMS: Final = 10_000
"""Diagnostics of one file and kind: no file that a person reads has more."""


def passes_requests(peer: Peer) -> bool:
    """Whether the server passes requests on to TypeScript's."""
    provider = peer.capabilities.get("executeCommandProvider")
    commands = provider.get("commands") if isinstance(provider, Mapping) else None
    return isinstance(commands, list) and COMMAND in commands


async def diagnostics(peer: Peer, path: Path, timeout_s: float) -> Sequence[Mapping[str, Any]]:
    """The file's diagnostics as LSP objects; the file must be open.

    Raises:
        RequestFailed, RequestTimedOut, ServerGone: there is no answer.
    """
    items: list[Mapping[str, Any]] = []
    for kind in _KINDS:
        params = {"command": COMMAND, "arguments": [kind, {"file": str(path)}, {}]}
        answer = await peer.request(_EXECUTE, params, timeout_s=timeout_s)
        body = answer.get("body") if isinstance(answer, Mapping) else None
        if not isinstance(body, list):
            raise RequestFailed(0, "its answer has no diagnostics")
        converted = (_converted(item) for item in body[:MAX_ITEMS])
        items += [diagnostic for diagnostic in converted if diagnostic is not None]
    return items


def _converted(item: Any) -> Mapping[str, Any] | None:
    if not isinstance(item, Mapping):
        return None
    start, end = _position(item.get("start")), _position(item.get("end"))
    if start is None or end is None:
        return None
    tags = [
        tag
        for tag, member in ((_UNNECESSARY, "reportsUnnecessary"), (_DEPRECATED, "reportsDeprecated"))
        if item.get(member)
    ]
    return {
        "range": {"start": start, "end": end},
        "severity": _SEVERITIES.get(str(item.get("category")), 1),
        "message": str(item.get("text", "")),
        "source": str(item.get("source") or "typescript"),
        **({"code": item["code"]} if isinstance(item.get("code"), (int, str)) else {}),
        **({"tags": tags} if tags else {}),
    }


def _position(place: Any) -> Mapping[str, int] | None:
    """Its lines and offsets count from 1; offsets are UTF-16 units, as in these servers' LSP."""
    line, offset = (place.get("line"), place.get("offset")) if isinstance(place, Mapping) else (None, None)
    if not isinstance(line, int) or not isinstance(offset, int):
        return None
    return {"line": max(0, line - 1), "character": max(0, offset - 1)}
