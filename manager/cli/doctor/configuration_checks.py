"""Judges what the file of a client says about our manager, before anything is sent. Pure but for the PATH."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from manager.cli.doctor.findings import Level
from manager.client_files.change import ENTRY_NAME, is_ours
from manager.client_files.configured_entries import ClientConfiguration, Configured
from protocol import headers

_FOLDER_HEADER: Final = headers.WORKSPACE_CWD.lower()


class Problem(NamedTuple):
    """Something about a client's configuration; `hint` is the command or line that solves it."""

    level: Level
    text: str
    hint: str


def problems_of_files(found: ClientConfiguration) -> Iterator[Problem]:
    """Files that the client cannot read, and entries that stand in each other's way."""
    for refusal in found.refusals:
        yield Problem(Level.FAIL, refusal.message, refusal.next_step)
    used = [one for one in found.entries if one.is_ours and not one.is_disabled]
    for one in used[1:]:
        text = f"it sees every tool twice: {used[0].where} and {one.where} lead to the same manager"
        yield Problem(Level.WARN, text, f'remove the entry "{one.name}" from {one.where}')


def problems_of_entry(client: str, one: Configured, port: int | None, path: str | None) -> Iterator[Problem]:
    """What is wrong with one entry.

    Args:
        client: the id of the client.
        one: the entry.
        port: the manager's port; None if it is not known.
        path: the PATH on which the client finds programs.
    """
    again = f"lmtb client add {client}"
    if not one.is_ours:
        text = f'{one.where}: the entry "{one.name}" does not lead to LM Tools Bridge'
        yield Problem(Level.FAIL, text, f"{again} --force")
        return
    if one.is_disabled:
        yield Problem(
            Level.WARN, f'{one.where}: the entry "{one.name}" is disabled', "enable it in that file"
        )
        return
    if one.address is None:
        yield from _program(one, again, path)
    elif port is not None and not leads_to(one, port):
        text = f"{one.where}: it connects to {one.address}, but the manager's port is {port}"
        yield Problem(Level.FAIL, text, _hint(one, again, f"http://127.0.0.1:{port}/mcp"))
    for variable in one.unset:
        text = f"{one.where}: it uses {variable}, which has no value here"
        yield Problem(Level.WARN, text, f"set it where you start the client, or correct the entry: {again}")
    if client == "codex":
        yield from _codex(one, again)


def leads_to(one: Configured, port: int) -> bool:
    """Whether an entry leads to an endpoint of the manager on this port, which alone is contacted."""
    try:
        parts = urlsplit(one.address or "")
    except ValueError:
        return False
    return parts.scheme == "http" and is_ours({"url": one.address}) and one.port == port


def _program(one: Configured, again: str, path: str | None) -> Iterator[Problem]:
    command = one.entry.get("command")
    program = command[0] if isinstance(command, list) and command else command
    if not isinstance(program, str) or shutil.which(program, path=path) is None:
        yield Problem(Level.FAIL, f"{one.where}: it starts {program}, which is not there", _hint(one, again))


def _codex(one: Configured, again: str) -> Iterator[Problem]:
    if one.entry.get("required") is not True:
        text = f"{one.where}: required = true is missing, so Codex waits for the list of tools for 1 s only"
        yield Problem(Level.WARN, text, _hint(one, again, "required = true"))
    names = {name.lower() for key in ("env_http_headers", "http_headers") for name in _keys(one.entry, key)}
    address = one.address or ""
    if _FOLDER_HEADER not in names and "cwd=" not in address and "/w/" not in address:
        line = f'env_http_headers = {{ "{headers.WORKSPACE_CWD}" = "PWD" }}'
        text = f"{one.where}: the header {headers.WORKSPACE_CWD} is missing, so no project is found"
        yield Problem(Level.WARN, text, _hint(one, again, line))


def _keys(entry: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = entry.get(key)
    return tuple(value) if isinstance(value, dict) else ()


def _hint(one: Configured, again: str, line: str = "") -> str:
    """The command that corrects the user's own entry; for other entries, what to write there."""
    if one.place.scope == "user" and one.name == ENTRY_NAME and len(one.place.container) == 1:
        return again
    return f"write in {one.where}: {line}" if line else f"correct {one.where}"
