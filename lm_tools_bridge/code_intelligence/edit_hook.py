"""The verb hook: coding agents run it after each edit, to learn which errors the file has now.

Agents pass an event as JSON on standard input, and give the model what is printed. An agent must not be
hindered: whatever goes wrong, nothing is printed, and the exit code is 0.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.terminal.command_line import Failure, SubVerbs
from manager import __version__
from manager.cli.output.manager_access import mcp_address, user_paths
from manager.client import ManagerFault, McpClient, NoManager

MAX_EVENT: Final = 32 * 1024 * 1024
"""Bytes of an event, which has the text that was written and what it replaced."""
WAIT_S: Final = 4
"""So long servers may check the file: the agent waits meanwhile, after every edit."""
ANSWER_S: Final = 10.0
"""Longest the whole answer may take, also where the project's server has to start."""
MAX_LINES: Final = 20
"""Lines that the model is told, as in the answers of language tools."""
_FILES: Final = ("file_path", "notebook_path", "filePath", "path")
"""The members of an event's `tool_input` that name the file that was written."""


@click.group(cls=SubVerbs)
def hook() -> None:
    """What coding agents run by themselves; `lmtb client add` writes it into their settings."""


@hook.command(name="post-edit")
def post_edit() -> None:
    """Print the errors of a file that an agent just wrote.

    Reads the event of the agent's hook from standard input. Prints nothing if there are no errors, and if no
    manager runs.
    """
    event = read_event(sys.stdin.buffer.read(MAX_EVENT + 1))
    file = edited_file(event)
    if file is None:
        return
    lines = list(error_lines(_ask(file)))
    if lines:
        click.echo(json.dumps(answer(event, lines)))


def read_event(data: bytes) -> Mapping[str, Any]:
    """The event that an agent passed; empty if it is none. Pure."""
    if len(data) > MAX_EVENT:
        return {}
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def edited_file(event: Mapping[str, Any]) -> Path | None:
    """The file that an event is about, absolute; None if it names none. Pure."""
    tool_input = event.get("tool_input")
    members = tool_input if isinstance(tool_input, Mapping) else {}
    text = next((members[name] for name in _FILES if isinstance(members.get(name), str)), "")
    folder = event.get("cwd")
    path = Path(os.path.normpath(os.path.join(folder if isinstance(folder, str) else "", text)))  # noqa: PTH118  normalized
    return path if text and path.is_absolute() and "\0" not in str(path) else None


def error_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """The errors in a result of `lm_getDiagnostics`, then those that are new elsewhere. Pure."""
    content = result.get("structuredContent")
    if result.get("isError") or not isinstance(content, Mapping):
        return
    for file in _objects(content.get("files")):
        name = file.get("workspacePath") or file.get("absolutePath")
        for error in _objects(file.get("diagnostics")):
            place = f"{name}:{error.get('startLine')}:{error.get('startCharacter')}"
            code = f" [{error['code']}]" if error.get("code") is not None else ""
            yield f"{place}: {error.get('message')}{code}"
    news = content.get("newErrors")
    lines = news.get("lines") if isinstance(news, Mapping) else None
    yield from (str(line) for line in lines or ())


def answer(event: Mapping[str, Any], lines: list[str]) -> dict[str, Any]:
    """What the agent reads: the lines as further context for its model. Pure."""
    rest = len(lines) - MAX_LINES
    more = [f"… and {rest} more: see lm_getDiagnostics"] if rest > 0 else []
    text = "\n".join(
        ["Errors after this edit, as of the project's language servers:", *lines[:MAX_LINES], *more]
    )
    name = event.get("hook_event_name")
    return {
        "hookSpecificOutput": {
            "hookEventName": name if isinstance(name, str) else "PostToolUse",
            "additionalContext": text,
        }
    }


def _ask(file: Path) -> Mapping[str, Any]:
    """The result of the tool; empty if there is none."""
    arguments = {"filePath": str(file), "severities": ["error"], "waitS": WAIT_S, "maxResults": 2 * MAX_LINES}
    try:
        own = own_headers(user_paths().runtime_dir)
        client = McpClient(mcp_address(), str(file.parent), __version__, own_headers=own, limit_s=ANSWER_S)
        params = {"name": "lm_getDiagnostics", "arguments": arguments}
        result = client.request("tools/call", params).message.get("result")
    except (NoManager, ManagerFault, Failure, OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else iter(())
