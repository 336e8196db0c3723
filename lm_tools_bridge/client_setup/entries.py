"""Makes the entries that clients need, with the project's folder where the client can send it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

CODEX_START_S: Final = 45
"""A workspace server may take 30 s to start (`start_timeout_s`), and Codex lists its tools only once."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the manager is: its port, and the program that starts `lmtb connect`."""

    port: int
    program: str

    def address(self, folder: str = "") -> str:
        """The address, with a client's variable for the project's folder."""
        query = f"?cwd={folder}" if folder else ""
        return f"http://127.0.0.1:{self.port}/mcp{query}"


MakeEntry = Callable[[Endpoint], Mapping[str, Any]]


def claude_code(endpoint: Endpoint) -> Mapping[str, Any]:
    """Claude Code expands `${PWD}`, but not `$PWD`."""
    return {"type": "http", "url": endpoint.address("${PWD}")}


def codex(endpoint: Endpoint) -> Mapping[str, Any]:
    """Codex keeps one process for all folders: only a program learns the folder of a thread.

    If the server is not required, Codex waits for 1 s only.
    """
    return {**program(endpoint), "required": True, "startup_timeout_sec": CODEX_START_S}


def gemini(endpoint: Endpoint) -> Mapping[str, Any]:
    """Gemini CLI and Qwen Code. Their roots decide; with roots in several projects, `$PWD` says which.

    The manager's own tools are not listed to a client whose address names a folder.
    """
    return {"httpUrl": endpoint.address("$PWD")}


def opencode(endpoint: Endpoint) -> Mapping[str, Any]:
    """The programs opencode and Kilo, for which the same holds."""
    return {"type": "remote", "url": endpoint.address("{env:PWD}"), "enabled": True}


def vscode(endpoint: Endpoint) -> Mapping[str, Any]:
    """VS Code refuses to start a server of the user's file that has a variable for the folder."""
    return {"type": "http", "url": endpoint.address()}


def copilot(endpoint: Endpoint) -> Mapping[str, Any]:
    """Copilot CLI has no roots, and after `-C` it does not work in `PWD`. Without `tools` it offers none."""
    return {"type": "local", **program(endpoint), "tools": ["*"]}


def cline(endpoint: Endpoint) -> Mapping[str, Any]:
    """Cline has no variables and no roots, and one process for all folders."""
    return {"transport": {"type": "streamableHttp", "url": endpoint.address()}}


def grok(endpoint: Endpoint) -> Mapping[str, Any]:
    """Grok Build has no roots, and starts a program in the folder in which it works."""
    return {**program(endpoint), "enabled": True}


def plain_address(endpoint: Endpoint) -> Mapping[str, Any]:
    """Clients that take an address and have no variable for the folder."""
    return {"url": endpoint.address()}


def windsurf(endpoint: Endpoint) -> Mapping[str, Any]:
    """Windsurf has its own name for the address."""
    return {"serverUrl": endpoint.address()}


def program(endpoint: Endpoint) -> Mapping[str, Any]:
    """Clients that can only start programs, or whose programs alone learn the folder."""
    return {"command": endpoint.program, "args": ["connect"]}
