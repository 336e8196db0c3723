"""Makes the entries that clients need, and brings older entries of ours up to date. Pure.

An entry has the project's folder where the client can send it. What its user added to an entry stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

CODEX_START_S: Final = 45
"""A workspace server may take 30 s to start (`start_timeout_s`), and Codex lists its tools only once."""
# Goose's own default; its source says that new entries should have it.
GOOSE_CALL_S: Final = 300


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


def stdio_program(endpoint: Endpoint) -> Mapping[str, Any]:
    """Crush and Droid read the kind of a server before all else."""
    return {"type": "stdio", **program(endpoint)}


def goose(endpoint: Endpoint) -> Mapping[str, Any]:
    """Goose has its own names for most members, and 300 s for a call, as it writes itself."""
    about = {
        "enabled": True,
        "type": "stdio",
        "name": "lm-tools-bridge",
        "description": "Tools of the project",
    }
    return {**about, **program(endpoint), "timeout": GOOSE_CALL_S}


Entry = Mapping[str, Any]

ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
"""The names that clients have for the address of a server."""
TRANSPORT: Final = "transport"
"""The member in which some clients have the address or the program."""
_PROGRAM: Final = frozenset({"command", "args"})
_WE_WRITE: Final = frozenset({*ADDRESSES, "type"})
_OF_HTTP: Final = frozenset(
    {"headers", "http_headers", "env_http_headers", "bearer_token_env_var", "oauth", "scopes"}
)
"""What has a meaning for an address only: Codex refuses a program that has one of them."""
_FOLDER_HEADERS: Final = {"env_http_headers": {"X-Workspace-Cwd": "PWD"}}
"""What we wrote for Codex when its entry had an address."""
_VARIABLE: Final = re.compile(r"\$\{?\w+\}?|\{env:\w+\}")
_ON_THE_PATH: Final = frozenset({"lmtb", "lm-tools-bridge"})


def flat(entry: Entry) -> dict[str, Any]:
    """An entry, with what is in its `transport` beside the rest."""
    inner = entry.get(TRANSPORT)
    if not isinstance(inner, Mapping):
        return dict(entry)
    return {**{key: value for key, value in entry.items() if key != TRANSPORT}, **inner}


def address_of(entry: Entry) -> str | None:
    """Where an entry connects to; None if it starts a program."""
    members = flat(entry)
    return next((members[key] for key in ADDRESSES if isinstance(members.get(key), str)), None)


def upgraded(present: Entry, new_entry: Entry) -> dict[str, Any]:
    """An entry of ours as we write it today, with what its user added to it.

    What the user chose stays: a folder in the address (only its port is corrected), a program for a client
    that gets an address, and an address with headers of the user for a client that gets a program.

    Args:
        present: the entry that is in the file.
        new_entry: the entry that we write.
    """
    address, ours = address_of(present), address_of(new_entry)
    if address is None:
        return dict(present) if ours is not None else _with_program(present, new_entry)
    if ours is None:
        return _as_program(present, address, new_entry)
    return _with_address(present, address, ours, new_entry)


def _with_program(present: Entry, new_entry: Entry) -> dict[str, Any]:
    """Our program where it is today. Its further arguments, and a name on the PATH, are the user's."""
    command = present.get("command")
    return {**new_entry, **present, "command": command if command in _ON_THE_PATH else new_entry["command"]}


def _as_program(present: Entry, address: str, new_entry: Entry) -> dict[str, Any]:
    """An entry with an address as one with a program, unless that would lose what the user added."""
    members = {key: value for key, value in present.items() if _FOLDER_HEADERS.get(key) != value}
    if _OF_HTTP & members.keys() or not _is_generated(address):
        return dict(present)
    return {**new_entry, **{key: value for key, value in members.items() if key not in _WE_WRITE | _PROGRAM}}


def _with_address(present: Entry, address: str, ours: str, new_entry: Entry) -> dict[str, Any]:
    """Our address at the place where the entry has one, and those of our members that it lacks."""
    if not _is_generated(address):
        ours = urlsplit(address)._replace(scheme="http", netloc=urlsplit(ours).netloc).geturl()
    inner = present.get(TRANSPORT)
    members = dict(inner) if isinstance(inner, Mapping) else dict(present)
    place = next(key for key in ADDRESSES if isinstance(members.get(key), str))
    for key, value in flat(new_entry).items():
        if (key not in members and key not in ADDRESSES) or key == "type":
            members[key] = value
    members[place] = ours
    return {**present, TRANSPORT: members} if isinstance(inner, Mapping) else members


def _is_generated(address: str) -> bool:
    """Whether we wrote an address: it has no query, or only a variable for the folder."""
    parts = urlsplit(address)
    name, _, value = parts.query.partition("=")
    return parts.path == "/mcp" and (not parts.query or (name == "cwd" and bool(_VARIABLE.fullmatch(value))))
