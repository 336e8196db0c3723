"""Lists the files in which clients have hooks, and finds our hook in them. Pure.

A client with hooks has a second file here, which is planned, shown, written and undone as the first one is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.client_setup.change import FileFormat
from lm_tools_bridge.client_setup.clients import Client, Machine
from lm_tools_bridge.client_setup.entries import Endpoint
from lm_tools_bridge.text.jsonc_parser import JSON

CLAUDE_LIMIT_S: Final = 15
"""Claude Code waits so long for the hook; ours gives up before."""


def claude_hook(endpoint: Endpoint) -> Mapping[str, Any]:
    """Claude Code runs it by a shell, after each of its tools that write files."""
    command = f"{shlex.quote(endpoint.program)} hook post-edit"
    return {
        "matcher": "Edit|MultiEdit|Write|NotebookEdit",
        "hooks": [{"type": "command", "command": command, "timeout": CLAUDE_LIMIT_S}],
    }


def _claude_folder(machine: Machine) -> Any:
    return machine.variable("CLAUDE_CONFIG_DIR") or machine.home / ".claude"


HOOKS: Final = (
    Client(
        "claude-code-hook",
        "Claude Code (errors after edits)",
        _claude_folder,
        ("settings.json",),
        ("claude",),
        FileFormat("hooks", JSON, hook_event="PostToolUse"),
        claude_hook,
        "Claude Code is told the errors of each file that it writes",
        sends_folder=True,
    ),
)
_HOOK_OF: Final = {"claude-code": HOOKS[0]}


def hook_of(client: Client) -> Client | None:
    """The file with the hook of a client; None if we know none."""
    return _HOOK_OF.get(client.id)


def with_hooks(clients: Sequence[Client]) -> list[Client]:
    """The clients, each followed by the file with its hook."""
    return [each for client in clients for each in (client, hook_of(client)) if each is not None]
