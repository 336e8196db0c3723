"""Reads what a configuration says about the sandboxes of stdio servers. Pure.

An entry says `sandbox = "project"`, or a table with what the server may do beyond that or may not do. VS Code
has the keys `sandboxEnabled` and `sandbox`, which are translated. A value that is not understood stays
unread, so that `restrictions.py` holds the server: it never runs with fewer limits than its file says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from workspace_server.config.formats.fields import ConfigValueError, Fields
from workspace_server.config.model import Sandbox, StdioServer

KEY: Final = "sandbox"
DOMAINS: Final = "sandbox.network"
"""Stands among the keys of an entry for VS Code's limit of the network to domains, which cannot be kept."""
_WORDS: Final[Mapping[Any, Sandbox]] = {
    True: Sandbox(),
    "project": Sandbox(),
    False: Sandbox(is_on=False),
    "off": Sandbox(is_on=False),
}
_OWN_KEYS: Final = frozenset({"write", "deny_read", "deny_write", "network"})
_Network = Literal["all", "none"]
_OF_FILES: Final[Mapping[str, str]] = {
    "allowWrite": "write",
    "denyRead": "deny_read",
    "denyWrite": "deny_write",
}
"""VS Code's keys below `filesystem`, and ours."""


def read_sandbox(table: Fields, full_path: Callable[[str], str]) -> Sandbox | None:
    """The sandbox of an entry or of all servers of a file; None if nothing is said, or nothing understood.

    Args:
        table: what has the key `sandbox`, which is taken if it is understood.
        full_path: expands a path and makes it absolute.

    Raises:
        ConfigValueError: a value of the table is wrong.
    """
    value = table.peek(KEY)
    if isinstance(value, str | bool) and value in _WORDS:
        return _WORDS[table.take(KEY)]
    if not isinstance(value, Mapping) or not value.keys() <= _OWN_KEYS:
        return None
    table.take(KEY)
    rules = Fields(value)
    return Sandbox(
        write=tuple(map(full_path, rules.texts("write"))),
        unread=tuple(map(full_path, rules.texts("deny_read"))),
        fixed=tuple(map(full_path, rules.texts("deny_write"))),
        network=rules.choice("network", _Network, "all") == "all",
    )


def of_vscode(rules: Any) -> Mapping[str, Any]:
    """VS Code's rules with the keys of our TOML; where one is not known, a table that is not understood.

    VS Code lets such a server reach npm's registry and the domains of the rules, no others.
    """
    translated: Mapping[str, Any] = {"rules": rules}
    if isinstance(rules, Mapping) and rules.keys() <= {"filesystem", "network"}:
        files = rules.get("filesystem", {})
        if isinstance(files, Mapping) and files.keys() <= _OF_FILES.keys():
            translated = {_OF_FILES[key]: value for key, value in files.items()}
    return {KEY: translated, DOMAINS: True}


def read_choice(written: Any, full_path: Callable[[str], str]) -> Sandbox:
    """What the user chose for a server of one project: `off`, or further paths that it may write.

    Raises:
        ConfigValueError: the value cannot be read.
    """
    if written == "off":
        return Sandbox(is_on=False)
    if not isinstance(written, list) or not all(isinstance(path, str) for path in written):
        raise ConfigValueError('it must be "off" or an array of paths')
    return Sandbox(write=tuple(map(full_path, written)))


def in_force(server: StdioServer, default: Sandbox | None, choice: Sandbox | None) -> StdioServer:
    """The server with the sandbox that holds for it.

    Args:
        server: as its file describes it.
        default: what the user says for all servers; only the user's own entries can be without it.
        choice: what the user chose for this server in this project.
    """
    sandbox = server.sandbox
    # a project's file comes with the project: it cannot take its servers out of the user's sandbox
    if sandbox is None or (not sandbox.is_on and server.origin.scope == "workspace"):
        sandbox = default
    if choice is not None and not choice.is_on:
        sandbox = choice
    elif choice is not None:
        base = sandbox if sandbox is not None and sandbox.is_on else Sandbox()
        sandbox = replace(base, write=(*base.write, *choice.write))
    return replace(server, sandbox=sandbox if sandbox is not None and sandbox.is_on else None)
