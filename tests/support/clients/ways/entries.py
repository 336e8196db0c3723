"""The entries for our manager that are compared: one text for each agent and each way to tell the folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ENTRIES = ("query", "header", "roots", "connect", "plugin")
"""`roots` is the plain address: the folder comes from the client's roots, or from what it adds to calls."""
NAME = "lm-tools-bridge"
CONNECT: dict[str, Any] = {"command": "lmtb", "args": ["connect"]}


def entry_of(agent: str, kind: str, address: str) -> str | None:
    """The text that goes into the agent's configuration; nothing where the agent has no such entry.

    Args:
        agent: its name in the table of agents.
        kind: one of `ENTRIES`, or `none`.
        address: that of the manager's endpoint.
    """
    if agent == "codex":
        return _codex(kind, address)
    if kind == "none" or (kind == "plugin" and agent in PLUGINS):
        return _json(agent, None)
    if kind == "plugin":
        return None
    server = _server(agent, kind, address)
    return None if server is None else _json(agent, server)


def _codex(kind: str, address: str) -> str | None:
    if kind == "none":
        return ""
    rest = "required = true\nstartup_timeout_sec = 45\n"
    texts = {
        "header": f'url = "{address}"\nenv_http_headers = {{ "X-Workspace-Cwd" = "PWD" }}\n',
        "roots": f'url = "{address}"\n',
        "connect": 'command = "lmtb"\nargs = ["connect"]\n',
    }
    return f"[mcp_servers.{NAME}]\n{texts[kind]}{rest}" if kind in texts else None


_FOLDER: Mapping[str, str] = {
    "claude-code": "${PWD}",
    "gemini-cli": "$PWD",
    "opencode": "{env:PWD}",
    "copilot-cli": "${PWD}",
    "qwen-code": "$PWD",
    "kilo": "{env:PWD}",
}
"""How an agent writes the variable of the shell's folder; the others expand none."""
_IN_HEADERS = {**_FOLDER, "copilot-cli": "$PWD"}
_SECTION = {"opencode": "mcp", "kilo": "mcp"}


def _server(agent: str, kind: str, address: str) -> dict[str, Any] | None:
    if kind == "connect":
        return _program(agent)
    if kind != "roots" and agent not in _FOLDER:
        return None
    url = f"{address}?cwd={_FOLDER[agent]}" if kind == "query" else address
    headers = {"headers": {"X-Workspace-Cwd": _IN_HEADERS[agent]}} if kind == "header" else {}
    return {**_remote(agent, url), **headers}


def _program(agent: str) -> dict[str, Any]:
    if _SECTION.get(agent) == "mcp":
        return {"type": "local", "command": ["lmtb", "connect"], "enabled": True}
    if agent == "copilot-cli":
        return {"type": "local", **CONNECT, "tools": ["*"]}
    if agent == "cline":
        return {"transport": {"type": "stdio", **CONNECT}}
    return CONNECT


def _remote(agent: str, url: str) -> dict[str, Any]:
    match agent:
        case "claude-code":
            return {"type": "http", "url": url}
        case "gemini-cli" | "qwen-code":
            return {"httpUrl": url}
        case "opencode" | "kilo":
            return {"type": "remote", "url": url, "enabled": True}
        case "copilot-cli":
            return {"type": "http", "url": url, "tools": ["*"]}
        case "cline":
            return {"transport": {"type": "streamableHttp", "url": url}}
        case _:
            return {"type": "streamable-http", "url": url}


def _json(agent: str, server: Mapping[str, Any] | None) -> str:
    if agent == "continue":
        return json.dumps({"mcpServers": [] if server is None else [{"name": NAME, **server}]})
    return json.dumps({_SECTION.get(agent, "mcpServers"): {} if server is None else {NAME: server}})


PLUGINS = ("claude-code", "gemini-cli")
"""Agents whose plugins can bring an entry with the folder in it."""


def plugin_files(agent: str, address: str) -> Mapping[str, str]:
    """The files of a plugin with an entry for our manager, relative to its folder."""
    if agent == "claude-code":
        server = {"type": "http", "url": f"{address}?cwd=${{CLAUDE_PROJECT_DIR}}"}
        return {
            ".claude-plugin/plugin.json": json.dumps({"name": "bridge", "version": "1.0.0"}),
            ".mcp.json": json.dumps({"mcpServers": {NAME: server}}),
        }
    server = {"httpUrl": f"{address}?cwd=${{workspacePath}}"}
    manifest = {"name": "bridge", "version": "1.0.0", "mcpServers": {NAME: server}}
    return {"gemini-extension.json": json.dumps(manifest)}
