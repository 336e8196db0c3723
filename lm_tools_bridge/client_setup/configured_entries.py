"""Reads the files of clients as the clients do: which entries lead to a manager, and where to.

A client expands variables in its own way, and uses no servers of a project, or none at all, in a folder that
it does not trust. Nothing is started and nothing is contacted here. Blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.adoption.project_entry import leads_to_manager
from lm_tools_bridge.client_setup.change import ENTRY_NAME, FileFormat, decoded, is_ours, refused, value_at
from lm_tools_bridge.client_setup.clients import Client, Machine
from lm_tools_bridge.client_setup.editing import file_access
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.entries import address_of, flat
from lm_tools_bridge.client_setup.refusals import FormProblem, Refusal
from lm_tools_bridge.protocol.internal import client_files
from lm_tools_bridge.protocol.names import USUAL_PORT
from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.jsonc_parser import Dialect, parse
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

_GEMINI_FILE: Final = "trustedFolders.json"
_COMMENTS: Final = Dialect(comments=True)


def reads_project_files(client: Client, machine: Machine, project: Path) -> bool:
    """Whether a client uses the servers of this project's files. Codex has a list of trusted projects."""
    if client.id != "codex":
        return True
    for file in client.candidates(machine):
        section = _value(file, client.form.dialect, "projects", str(project))
        if isinstance(section, dict) and section.get("trust_level") == "trusted":
            return True
    return False


def uses_servers(client: Client, machine: Machine, project: Path) -> bool:
    """Whether a client uses any server in this project. Gemini CLI has a list of trusted folders."""
    if client.id != "gemini-cli":
        return True
    folder = client.folder(machine)
    settings = _value(folder / client.files[-1], client.form.dialect, "security", "folderTrust")
    if isinstance(settings, dict) and settings.get("enabled") is False:
        return True
    rules = _value(folder / _GEMINI_FILE, _COMMENTS)
    best, trusted = -1, False
    for path, rule in rules.items() if isinstance(rules, dict) else ():
        place = Path(path).parent if rule == "TRUST_PARENT" else Path(path)
        if project.is_relative_to(place) and len(place.parts) > best:
            best, trusted = len(place.parts), rule != "DO_NOT_TRUST"
    return trusted


def _value(file: Path, dialect: Dialect | None, *path: str) -> Any:
    """A value in a file; None or a problem if it cannot be read."""
    state = file_access.read(file)
    text = decoded(state.content or b"", "") if isinstance(state, FileState) else None
    return value_at(text, FileFormat("", dialect), path) if isinstance(text, str) else None


Scope = Literal["project", "user"]


@dataclass(frozen=True, slots=True)
class Place:
    """An object with servers in a file.

    Attributes:
        file: the file.
        container: the names that lead to the object.
        form: how the client reads the file.
        scope: whose file it is.
    """

    file: Path
    container: tuple[str, ...]
    form: FileFormat
    scope: Scope


@dataclass(frozen=True, slots=True)
class Reading:
    """How a client reads its files.

    Attributes:
        project_files: its files in a project, which take precedence over those of the user.
        variable: matches a variable in a text, with groups `name` and `default`; None: there are none.
        merges: whether entries of one name are merged key by key; else the first one counts alone.
        sections: whether the user's file has a section for each project, before all others.
    """

    project_files: tuple[str, ...] = ()
    variable: re.Pattern[str] | None = None
    merges: bool = False
    sections: bool = False


_NOTHING: Final = Reading()

READING: Final[Mapping[str, Reading]] = {
    "claude-code": Reading((client_files.CLAUDE_CODE.path,), placeholders.BRACED, sections=True),
    "codex": Reading((".codex/config.toml",), merges=True),
    "gemini-cli": Reading((".gemini/settings.json",), placeholders.DOLLAR),
    "opencode": Reading(("opencode.jsonc", "opencode.json"), placeholders.ENV_IN_BRACES, merges=True),
    "vscode": Reading((client_files.VSCODE.path,), placeholders.EDITOR),
    "cursor": Reading((client_files.CURSOR.path,), placeholders.EDITOR),
    "copilot-cli": Reading((client_files.CLAUDE_CODE.path, ".github/mcp.json"), placeholders.DOLLAR),
    "qwen-code": Reading((".qwen/settings.json",), placeholders.DOLLAR),
    "kilo": Reading((".kilo/kilo.jsonc", "kilo.jsonc", "kilo.json"), placeholders.ENV_IN_BRACES, merges=True),
    "grok": Reading((".grok/config.toml",), placeholders.BRACED, merges=True),
    "crush": Reading((".crush.json", "crush.json"), merges=True),
    "droid": Reading((".factory/mcp.json",)),
    "kiro": Reading((".kiro/settings/mcp.json",), placeholders.BRACED),
    "amp": Reading((".amp/settings.json",)),
    "junie": Reading((".junie/mcp/mcp.json",)),
    "zed": Reading((".zed/settings.json",)),
    "windsurf": Reading((), placeholders.EDITOR),
}


def reading_of(client: Client) -> Reading:
    """How a client reads its files."""
    return READING.get(client.id, _NOTHING)


def places_of(client: Client, machine: Machine, project: Path) -> tuple[Place, ...]:
    """Where a client that works in a project finds its servers, the place with precedence first."""
    reading, form = reading_of(client), client.form
    top = (form.container,)
    own = [Place(file, top, form, "user") for file in client.candidates(machine)]
    sections = [
        Place(place.file, ("projects", str(project), form.container), form, "user")
        for place in own
        if reading.sections
    ]
    shared = [Place(project / name, top, form, "project") for name in reading.project_files]
    return (*sections, *shared, *own)


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
        and (entry.address is None or entry.port in {port, USUAL_PORT} or "cwd=" in entry.address)
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
    folder = None if entry.place.scope == "user" else str(project)
    result = placeholders.expand_texts(flat(entry.entry), reading_of(client).variable, environ, folder)
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
    if place.form.yaml is not None:
        match = re.search(rf"""\bname:\s*["']?{re.escape(name)}["']?\s*$""", text, re.MULTILINE)
        return None if match is None else text.count("\n", 0, match.start()) + 1
    if place.form.dialect is None:
        key = re.escape(name)
        header = re.search(rf'^\s*\[{place.container[0]}\.(?:{key}|"{key}")\]', text, re.MULTILINE)
        return None if header is None else text.count("\n", 0, header.end()) + 1
    document = parse(text, place.form.dialect)
    node = None if isinstance(document, SyntaxProblem) else document.root
    start = 0
    for step in (*place.container, name):
        member = node.member(step) if node is not None else None
        if member is None:
            return None
        node, start = member.value, member.start
    return text.count("\n", 0, start) + 1
