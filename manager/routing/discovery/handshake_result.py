"""Builds the result of a successful handshake: structured content, guidance and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.protocol import names
from manager.routing.discovery.host_mark import remote_step
from manager.routing.workspace.remote_address import RemoteRoot

CODE_STEP: Final = (
    "For code use lm_findSymbol, lm_references and lm_fileOutline rather than searching its text, and call"
    " lm_getDiagnostics after edits."
)
_CODE_TOOL: Final = "lm_references"
"""A tool that is there if a language server is."""


def payload(
    *,
    session_id: str | None,
    workspace: str,
    cwd: str,
    target: Mapping[str, Any],
    health: Mapping[str, Any],
    discovery: Mapping[str, Any],
    place: RemoteRoot | None = None,
) -> dict[str, Any]:
    """The structured content.

    Args:
        session_id: the session that was bound; None for stateless clients.
        target: `{sessionId, host, port, workspaceFolders, workspaceFile}` of the running server.
        health: its health answer, without the nonce.
        discovery: what the workspace offers (`payload.py`).
        place: where it is, if it is on another host.
    """
    steps = [] if place is None else [remote_step(place)]
    bound = session_id is not None
    return {
        "ok": True,
        **({"mcpSessionId": session_id} if bound else {}),
        "workspace": workspace,
        "cwd": cwd,
        **({} if place is None else {"host": place.host}),
        "target": target,
        "online": True,
        "health": {"ok": True, "status": 200, "data": health},
        "discovery": discovery,
        "guidance": {"nextSteps": [*steps, *next_steps(workspace, discovery, bound=bound)]},
    }


def next_steps(workspace: str, discovery: Mapping[str, Any], *, bound: bool) -> list[str]:
    """The next steps for the client, most useful first."""
    call = f'{names.CALL_TOOL} {{"name": <tool>, "arguments": {{…}}, "workspace": "{workspace}"}}'
    steps = [
        f"Call a tool by its name, or through {call}."
        if bound
        else f"Call a tool through {call}; repeat the handle in every call.",
        f"Read {names.TEMPLATE_SCHEMA} for the full schema of a tool's arguments.",
    ]
    if _CODE_TOOL in {tool["name"] for tool in discovery["bridgedTools"]}:
        steps.append(CODE_STEP)
    if discovery["partial"] or discovery["issues"]:
        steps.append("Some things are missing or old (see issues); list the tools again later.")
    waiting = [one for one in discovery["issues"] if one["category"] == "trust"]
    if waiting:
        commands = (one.get("details") for one in waiting if one["code"] == "TRUST_PENDING")
        command = next(filter(None, commands), "lmtb trust")
        steps.append(
            "What waits for trust (see issues) cannot be used yet. If it is needed, ask the user to review it"
            f" and to run: {command}"
        )
    return steps


def summary(answer: Mapping[str, Any]) -> str:
    """The result as text."""
    target, discovery = answer["target"], answer["discovery"]
    tools, issues = discovery["bridgedTools"], discovery["issues"]
    lines = [
        "Workspace handshake summary",
        "ok: true",
        f"workspace: {answer['workspace']}",
        f"cwd: {answer['cwd']}",
        *([f"host: {answer['host']} (all paths are paths there)"] if "host" in answer else []),
        f"target: {target['host']}:{target['port']}",
        f"workspaceFolders: {len(target['workspaceFolders'])}",
        "online: true",
        f"discovery.partial: {str(discovery['partial']).lower()}",
        f"bridgedTools: {len(tools)}",
        "tools:",
        *([f"  - {tool['name']}" for tool in tools] or ["  (none)"]),
        *(["Issues:", *_issue_lines(issues)] if issues else ["Issues: none"]),
        "Guidance:",
        "  nextSteps:",
        *(f"  - {step}" for step in answer["guidance"]["nextSteps"]),
    ]
    return "\n".join(lines)


def _issue_lines(issues: list[Mapping[str, str]]) -> list[str]:
    lines = []
    for one in issues:
        tags = [one["level"], one["category"], one["code"], *([one["toolName"]] if "toolName" in one else [])]
        lines.append(f"- {''.join(f'[{tag}]' for tag in tags)} {one['message']}")
        if "details" in one:
            lines.append(f"  details: {one['details']}")
    return lines
