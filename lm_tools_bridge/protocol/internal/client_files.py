"""Describes the files of a project in which other clients have MCP servers. Pure.

The workspace server offers these servers, `lmtb adopt` moves them, and the manager leaves them out for the
client that starts them itself. What the strings in a file mean is in `lm_tools_bridge/text/placeholders.py`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ProjectFile(NamedTuple):
    """A file of one client in a project.

    Attributes:
        path: where it is in the project.
        member: the name of the object with the servers.
        client: the client's name.
        bare: whether `${X}` and `${X:-default}` are variables.
        tilde: whether a leading `~` is the home folder.
        falls_back: whether the type `http` allows the older HTTP+SSE, too.
        other_members: names of objects that have another purpose.
        sandbox: the name of the object with the rules for servers that run in a sandbox; empty for none.
    """

    path: str
    member: str
    client: str
    bare: bool
    tilde: bool
    falls_back: bool
    other_members: frozenset[str] = frozenset()
    sandbox: str = ""


CLAUDE_CODE: Final = ProjectFile(
    ".mcp.json", "mcpServers", "Claude Code", bare=True, tilde=False, falls_back=False
)
VSCODE: Final = ProjectFile(
    ".vscode/mcp.json",
    "servers",
    "VS Code",
    bare=False,
    tilde=True,
    falls_back=True,
    other_members=frozenset({"inputs"}),
    sandbox="sandbox",
)
CURSOR: Final = ProjectFile(
    ".cursor/mcp.json", "mcpServers", "Cursor", bare=False, tilde=True, falls_back=True
)
PROJECT_FILES: Final = (CLAUDE_CODE, VSCODE, CURSOR)
"""In order of precedence."""
