"""Reads the files of clients as the clients do: which entries lead to a manager, and where to. Blocks.

Nothing is started and nothing is contacted here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.adoption.project_entry import leads_to_manager
from lm_tools_bridge.client_setup.change import ENTRY_NAME, decoded, is_ours, refused, value_at
from lm_tools_bridge.client_setup.client_places import Expanded, Place, expanded, places_of, reading_of
from lm_tools_bridge.client_setup.clients import Client, Machine
from lm_tools_bridge.client_setup.editing import file_access, jsonc_parser
from lm_tools_bridge.client_setup.entry_upgrade import address_of, flat
from lm_tools_bridge.client_setup.folder_trust import reads_project_files
from lm_tools_bridge.client_setup.refusals import FormProblem, Refusal, SyntaxProblem

_USUAL_PORT: Final = 47100


@dataclass(frozen=True, slots=True)
class Configured:
    """An entry that leads to a manager, as its client uses it.

    Attributes:
        name: its name in the file.
        place: where it is.
        line: in which line it begins, if known.
        written: the entry as it is in the file, or as it is merged from several.
        entry: the same, with variables replaced, and what is in its `transport` beside the rest.
        headers: what the client sends with each request.
        unset: variables without a value.
    """

    name: str
    place: Place
    line: int | None
    written: Mapping[str, Any]
    entry: Mapping[str, Any]
    headers: Mapping[str, str]
    unset: tuple[str, ...]

    @property
    def where(self) -> str:
        """The file and the line."""
        return str(self.place.file) if self.line is None else f"{self.place.file}, line {self.line}"

    @property
    def address(self) -> str | None:
        """Where it connects to; None if it starts a program."""
        return address_of(self.entry)

    @property
    def port(self) -> int | None:
        """The port of the address; None without one, or if it cannot be read."""
        try:
            return urlsplit(self.address or "").port
        except ValueError:
            return None

    @property
    def is_ours(self) -> bool:
        """Whether it leads to a manager at all: another program may have an entry of our name."""
        return is_ours(self.entry) or leads_to_manager(self.entry)

    @property
    def is_disabled(self) -> bool:
        """Whether the client does not use it."""
        return self.entry.get("enabled") is False or self.entry.get("disabled") is True


@dataclass(frozen=True, slots=True)
class ClientConfiguration:
    """What a client's files say.

    Attributes:
        client: the client.
        entries: those that lead to our manager.
        others: the other servers that the client starts or connects to.
        refusals: why files cannot be read.
    """

    client: Client
    entries: tuple[Configured, ...] = ()
    others: tuple[Configured, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclass(slots=True)
class _Found:
    place: Place
    line: int | None
    entry: dict[str, Any] = field(default_factory=dict)


def configuration_of(
    client: Client, machine: Machine, project: Path, port: int | None
) -> ClientConfiguration:
    """What a client that works in a project would read.

    Args:
        client: the client.
        machine: the environment and the home folder.
        project: the folder in which it works.
        port: the manager's; an entry of another name is ours if it leads there.
    """
    entries_by_name: dict[str, _Found] = {}
    refusals: dict[Path, Refusal] = {}
    trusted = reads_project_files(client, machine, project)
    for place in places_of(client, machine, project):
        if place.scope == "project" and not trusted:
            continue
        read = _servers(place)
        if isinstance(read, Refusal):
            refusals[place.file] = read
            continue
        text, servers = read
        for name, entry in servers.items():
            if isinstance(entry, dict):
                _add(entries_by_name, client, name, _Found(place, _line(text, place, name), entry))
    entries = [_configured(client, name, entry, machine, project) for name, entry in entries_by_name.items()]
    concerned = tuple(entry for entry in entries if _concerns(entry, port))
    other_entries = tuple(entry for entry in entries if entry not in concerned and not entry.is_disabled)
    return ClientConfiguration(client, concerned, other_entries, tuple(refusals.values()))


def _add(entries: dict[str, _Found], client: Client, name: str, entry: _Found) -> None:
    if name not in entries:
        entries[name] = entry
    elif reading_of(client).merges:
        entries[name].entry = {**entry.entry, **entries[name].entry}


def _concerns(entry: Configured, port: int | None) -> bool:
    """Whether an entry has our name or leads to us, and not to another server at `/mcp` of this machine."""
    return entry.name == ENTRY_NAME or (
        entry.is_ours
        and (entry.address is None or entry.port in {port, _USUAL_PORT} or "cwd=" in entry.address)
    )


def _servers(place: Place) -> tuple[str, dict[str, Any]] | Refusal:
    state = file_access.read(place.file)
    if isinstance(state, Refusal):
        return state
    text = decoded(state.content or b"", str(place.file))
    if isinstance(text, Refusal):
        return text
    value = value_at(text, place.form, place.container)
    if isinstance(value, SyntaxProblem | FormProblem):
        return refused(value, str(place.file))
    if value is not None and not isinstance(value, dict):
        problem = FormProblem("not_an_object", f'"{place.container[-1]}" is not an object')
        return refused(problem, str(place.file))
    return text, value or {}


def _configured(client: Client, name: str, entry: _Found, machine: Machine, project: Path) -> Configured:
    environ = machine.environ
    of_user = entry.place.scope == "user"
    result: Expanded = expanded(flat(entry.entry), client, environ, project, of_user=of_user)
    from_environ = result.value.get("env_http_headers")
    variables = from_environ if isinstance(from_environ, dict) else {}
    unset = [str(variable) for variable in variables.values() if str(variable) not in environ]
    written = {**_pairs(result.value.get("headers")), **_pairs(result.value.get("http_headers"))}
    headers = written | {
        key: environ[variable] for key, variable in _pairs(variables).items() if variable in environ
    }
    unset = [*result.unset, *unset]
    return Configured(name, entry.place, entry.line, entry.entry, result.value, headers, tuple(unset))


def _pairs(value: Any) -> dict[str, str]:
    return {key: str(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _line(text: str, place: Place, name: str) -> int | None:
    """The line in which an entry begins."""
    if place.form.is_yaml:
        match = re.search(rf"""\bname:\s*["']?{re.escape(name)}["']?\s*$""", text, re.MULTILINE)
        return None if match is None else text.count("\n", 0, match.start()) + 1
    if place.form.dialect is None:
        key = re.escape(name)
        header = re.search(rf'^\s*\[{place.container[0]}\.(?:{key}|"{key}")\]', text, re.MULTILINE)
        return None if header is None else text.count("\n", 0, header.end()) + 1
    document = jsonc_parser.parse(text, place.form.dialect)
    node = None if isinstance(document, SyntaxProblem) else document.root
    start = 0
    for step in (*place.container, name):
        member = node.member(step) if node is not None else None
        if member is None:
            return None
        node, start = member.value, member.start
    return text.count("\n", 0, start) + 1
