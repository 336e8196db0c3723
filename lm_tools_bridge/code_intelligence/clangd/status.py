"""The tool `lm_clangd_status`: whether clangd is there and runs. Works without clangd."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.client import NAME
from lm_tools_bridge.code_intelligence.clangd.lsp_request import methods_of
from lm_tools_bridge.code_intelligence.server import LanguageServers, ServerStatus, Unavailable
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from workspace_server.tool import ToolResult


async def status(servers: LanguageServers, settings: ClangdSettings) -> ToolResult:
    """The state of clangd. Starts nothing."""
    is_installed, is_trusted = await asyncio.to_thread(_availability, servers)
    server = next((each for each in servers.status() if each.name == NAME), None)
    running = server is not None and server.pid is not None
    members: dict[str, Any] = {
        "clangdMcpEnabled": settings.enabled,
        "clangdFound": is_installed,
        "clangdVersion": None if server is None else server.version,
        "clientAvailable": running,
        "clientState": _state(server),
        "workspaceTrusted": is_trusted,
        "autoStartOnInvoke": settings.auto_start,
        "requestTimeoutMs": settings.request_timeout_ms,
        "passthroughEnabled": settings.passthrough,
        "allowedPassthroughMethods": list(methods_of(settings)) if settings.passthrough else [],
    }
    lines = [f"{name}: {_word(value)}" for name, value in members.items()]
    more = {}
    if server is not None and server.freshness is not None:
        more["freshness"] = server.freshness.structured()
        lines.append(f"freshness: {server.freshness.text()}")
    if server is not None and server.error:
        more["error"] = {"message": server.error}
        lines.append(f"error: {server.error}")
    text = "\n".join(["counts total=1 shown=1 truncated=false kind=status", "---", *lines])
    return ToolResult(text, {"kind": "status", **members, **more})


_CLIENT_STATES: Final = {"idle": "stopped", "ready": "running", "crash_looping": "failed"}
"""The words of the extension whose tool this is, for the states of a language server."""


def _availability(servers: LanguageServers) -> tuple[bool, bool]:
    """Whether clangd was found, and whether it may run."""
    kind = servers.find(NAME)
    if isinstance(kind, Unavailable):
        return kind.state != "missing", kind.state != "untrusted"
    return kind is not None, True


def _state(server: ServerStatus | None) -> str:
    return "stopped" if server is None else _CLIENT_STATES.get(server.state, server.state)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(value) or "(none)"
    return "(unknown)" if value is None else str(value)
