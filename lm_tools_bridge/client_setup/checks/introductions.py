"""Lists how known clients introduce themselves: name, version, revision and roots. Pure.

VS Code, Cursor, Zed, Windsurf and Claude Desktop are assumed; the others were observed. What follows from the
name is in `manager/routing/client_profiles.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.protocol.names import LATEST_LEGACY, LATEST_MODERN


class Introduction(NamedTuple):
    """What a client says about itself.

    Attributes:
        name: in `clientInfo`.
        version: in `clientInfo`.
        revision: the revision of MCP that it speaks; a modern one has no sessions.
        has_roots: whether it answers `roots/list` with its folder.
    """

    name: str
    version: str
    revision: str
    has_roots: bool


INTRODUCTIONS: Final[Mapping[str, Introduction]] = {
    "claude-code": Introduction("claude-code", "2.1.332", LATEST_MODERN, has_roots=True),
    "codex": Introduction("codex-mcp-client", "0.171.0", "2025-06-18", has_roots=False),
    "gemini-cli": Introduction("gemini-cli-mcp-client", "0.61.0", "2025-06-18", has_roots=True),
    "opencode": Introduction("opencode", "1.18.33", LATEST_LEGACY, has_roots=True),
    "vscode": Introduction("Visual Studio Code", "1.0.0", LATEST_LEGACY, has_roots=True),
    "cursor": Introduction("cursor-vscode", "1.0.0", "2025-06-18", has_roots=False),
    "copilot-cli": Introduction("copilot-cli", "1.0.102", LATEST_MODERN, has_roots=False),
    "qwen-code": Introduction(f"qwen-cli-mcp-client-{ENTRY_NAME}", "0.0.1", LATEST_LEGACY, has_roots=True),
    "kilo": Introduction("kilo", "7.7.7", LATEST_LEGACY, has_roots=True),
    "cline": Introduction("@cline/core", "0.0.0", LATEST_LEGACY, has_roots=False),
    "continue": Introduction("continue-cli-client", "1.0.0", LATEST_LEGACY, has_roots=False),
    "grok": Introduction(f"grok-shell-{ENTRY_NAME}", "1.0.41", LATEST_LEGACY, has_roots=False),
    "zed": Introduction("Zed", "0.1.0", "2025-03-26", has_roots=False),
    "windsurf": Introduction("windsurf-client", "1.0.0", "2025-03-26", has_roots=False),
    "claude-desktop": Introduction("claude-ai", "0.1.0", "2025-06-18", has_roots=False),
}
"""By the id of `lm_tools_bridge/client_setup/clients.py`."""
