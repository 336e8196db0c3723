"""Reads which servers of a project's `.mcp.json` the user allowed in Claude Code, which asks about each.

Claude Code starts no server of the file without an answer, which it writes into its own files; run with `-p`,
it starts each that the user did not refuse (measured with 2.1.332). All functions block.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.machine import regular_file
from lm_tools_bridge.protocol.internal import client_files
from lm_tools_bridge.protocol.internal.client_traits import OwnServers, namespace_of

FILE: Final = client_files.CLAUDE_CODE.path
MAX_BYTES: Final = 32 * 1024 * 1024
"""Largest file that is read: Claude Code keeps state of all projects in one."""
_STATE: Final = ".claude.json"
_SETTINGS: Final = (".claude/settings.json", ".claude/settings.local.json")
_MANAGED: Final = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "win32": "C:/Program Files/ClaudeCode/managed-settings.json",
}
_MANAGED_ELSEWHERE: Final = "/etc/claude-code/managed-settings.json"
_ASKS_NOBODY: Final = "(sdk-cli"
"""In the `User-Agent` of `claude -p`."""


class _Said(msgspec.Struct, rename="camel"):
    """What one file says of the servers of `.mcp.json`."""

    enable_all_project_mcp_servers: bool = False
    enabled_mcpjson_servers: list[str] = []
    disabled_mcpjson_servers: list[str] = []
    disabled_mcp_servers: list[str] = []


class _State(msgspec.Struct):
    projects: dict[str, msgspec.Raw] = {}


class Approvals(msgspec.Struct, frozen=True):
    """What the user answered, by namespaces of servers; a refusal in any file counts first."""

    all_allowed: bool = False
    allowed: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def own_servers(self, user_agent: str) -> OwnServers:
        """The servers that Claude Code is known to start; `user_agent` tells whether it asks its user."""
        if self.all_allowed or _ASKS_NOBODY in user_agent:
            return OwnServers(FILE, self.refused)
        return OwnServers(FILE, self.allowed - self.refused, is_all_but=False)


def read_approvals(environ: Mapping[str, str], home: Path, folder: Path) -> Approvals:
    """The approvals for a session in this folder. A file that cannot be read says nothing.

    Below the root of a project, Claude Code has the servers of the root's `.mcp.json`, but only the answers
    that were given in its own folder.
    """
    answers = list(_said(environ, home, folder))
    return Approvals(
        any(answer.enable_all_project_mcp_servers for answer in answers),
        _namespaces(name for answer in answers for name in answer.enabled_mcpjson_servers),
        _namespaces(
            name
            for answer in answers
            for name in (*answer.disabled_mcpjson_servers, *answer.disabled_mcp_servers)
        ),
    )


def _namespaces(names: Iterator[str]) -> frozenset[str]:
    return frozenset(map(namespace_of, names))


def _said(environ: Mapping[str, str], home: Path, folder: Path) -> Iterator[_Said]:
    config_dir = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    own = Path(config_dir) if Path(config_dir).is_absolute() else None
    managed = Path(_MANAGED.get(sys.platform, _MANAGED_ELSEWHERE))
    files = (managed, (own or home / ".claude") / "settings.json", *(folder / name for name in _SETTINGS))
    for file in files:
        yield _decoded(_content(file), _Said) or _Said()
    state = _decoded(_content((own or home) / _STATE), _State) or _State()
    section = state.projects.get(str(folder))
    yield (None if section is None else _decoded(bytes(section), _Said)) or _Said()


def _content(file: Path) -> bytes:
    """The content of a regular file; empty if there is none, or it cannot be read."""
    try:
        return regular_file.read_bytes(file, MAX_BYTES)
    except OSError:
        return b""


def _decoded(content: bytes, kind: Any) -> Any:
    """The content as this type; None if it is not."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
