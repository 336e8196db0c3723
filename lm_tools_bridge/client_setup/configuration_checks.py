"""Judges what files of clients say, before anything is sent: of our manager, and of servers started twice."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.adoption.adoption_files import ProjectFiles
from lm_tools_bridge.client_setup.adoption.file_formats import ServersFile
from lm_tools_bridge.client_setup.change import ENTRY_NAME, is_ours
from lm_tools_bridge.client_setup.cli.context import user_machine
from lm_tools_bridge.client_setup.clients import CLIENTS, Client
from lm_tools_bridge.client_setup.configured_entries import ClientConfiguration, Configured, configuration_of
from lm_tools_bridge.client_setup.entries import Entry, upgraded
from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from manager.cli.output.findings import Finding, Level, Situation
from manager.disk import claude_approvals
from manager.disk.claude_approvals import read_approvals
from manager.status_reading import merged_workspaces, quoted

_FOLDER_HEADER: Final = headers.WORKSPACE_CWD.lower()
_NOT_REQUIRED: Final = "required = true is missing, so Codex waits for the list of tools for 1 s only"
_PWD: Final = re.compile(r"\bPWD\b")


class Problem(NamedTuple):
    """Something about a client's configuration; `hint` is the command or line that solves it."""

    level: Level
    text: str
    hint: str


def problems_of_files(configuration: ClientConfiguration) -> Iterator[Problem]:
    """Files that the client cannot read, and entries that stand in each other's way."""
    for refusal in configuration.refusals:
        yield Problem(Level.FAIL, refusal.message, refusal.next_step)
    used = [entry for entry in configuration.entries if entry.is_ours and not entry.is_disabled]
    for entry in used[1:]:
        text = f"it sees every tool twice: {used[0].where} and {entry.where} lead to the same manager"
        yield Problem(Level.WARN, text, f'remove the entry "{entry.name}" from {entry.where}')


class Judged(NamedTuple):
    """An entry, and what it becomes if it is brought up to date.

    Attributes:
        client: whose it is.
        entry: the entry.
        after: what `lmtb client update` makes of it; the same if it leaves it as it is.
    """

    client: Client
    entry: Configured
    after: Entry

    @classmethod
    def of(cls, client: Client, entry: Configured, new_entry: Entry) -> Judged:
        """Judge an entry by the one that we write today. Only our name in files of users is."""
        judged = cls(client, entry, entry.written)
        if not (judged.is_replaced and entry.is_ours):
            return judged
        return judged._replace(after=upgraded(entry.written, new_entry))

    @property
    def is_replaced(self) -> bool:
        """Whether our commands write this entry: it has our name, in the user's file for all projects."""
        entry = self.entry
        is_users = entry.place.scope == "user" and len(entry.place.container) == 1
        return is_users and entry.name == ENTRY_NAME

    @property
    def update(self) -> str | None:
        """The command that brings it up to date; None if that changes nothing."""
        if self.after == self.entry.written:
            return None
        return f"lmtb client update {self.client.id}"

    def cure(self, line: str = "") -> str:
        """What solves a problem that an update solves, or without one the line to write."""
        where = self.entry.where
        return self.update or (f"write in {where}: {line}" if line else f"correct {where}")


def problems_of_entry(judged: Judged, port: int | None, path: str | None) -> Iterator[Problem]:
    """What is wrong with one entry.

    Args:
        judged: the entry.
        port: the manager's port; None if it is not known.
        path: the PATH on which the client finds programs.
    """
    client, entry = judged.client, judged.entry
    if not entry.is_ours:
        text = f'{entry.where}: the entry "{entry.name}" does not lead to LM Tools Bridge'
        is_replaced = judged.is_replaced and client.form.yaml is None
        by_hand = f"remove it there; the entry to write instead: lmtb client show {client.id}"
        yield Problem(Level.FAIL, text, f"lmtb client add {client.id} --force" if is_replaced else by_hand)
        return
    if entry.is_disabled:
        text = f'{entry.where}: the entry "{entry.name}" is disabled'
        yield Problem(Level.WARN, text, "enable it in that file")
        return
    faults = [*_faults(judged, port, path)]
    yield from faults or _outdated(judged)
    for variable in entry.unset:
        text = f"{entry.where}: it uses {variable}, which has no value here"
        instead = f", or: {judged.update}" if judged.update else ""
        yield Problem(Level.WARN, text, f"set it where you start the client{instead}")
    if client.id == "codex":
        yield from _codex(judged)


def _faults(judged: Judged, port: int | None, path: str | None) -> Iterator[Problem]:
    """Why an entry does not lead to the manager of this port."""
    entry = judged.entry
    if entry.address is None:
        program = program_of(entry)
        if program is None or shutil.which(program, path=path) is None:
            yield Problem(
                Level.FAIL, f"{entry.where}: it starts {program}, which is not there", judged.cure()
            )
    elif port is not None and not leads_to(entry, port):
        text = f"{entry.where}: it connects to {entry.address}, but the manager's port is {port}"
        yield Problem(Level.FAIL, text, judged.cure(f"http://127.0.0.1:{port}/mcp"))


def _outdated(judged: Judged) -> Iterator[Problem]:
    """An entry that is not what we write today, and what is worse about it."""
    if judged.update is None:
        return
    before, after = judged.entry.written, judged.after
    changed = [key for key in after if after[key] != before.get(key)]
    dropped = [key for key in before if key not in after]
    instead = f" in place of {', '.join(dropped)}" if dropped else ""
    text = f"{judged.entry.where}: the entry is not what is written today: {', '.join(changed)}{instead}"
    if _PWD.search(str(before)) and not _PWD.search(str(after)):
        text += "; it names the folder of the shell that started the program, not that of the session"
    if judged.client.id == "codex" and "required" in changed:
        text += f"; {_NOT_REQUIRED}"
    yield Problem(Level.WARN, text, judged.update)


def program_of(entry: Configured) -> str | None:
    """The program that an entry starts, if it names one."""
    command = entry.entry.get("command")
    program = command[0] if isinstance(command, list) and command else command
    return program if isinstance(program, str) else None


def leads_to(entry: Configured, port: int) -> bool:
    """Whether an entry leads to an endpoint of the manager on this port, which alone is contacted."""
    try:
        parts = urlsplit(entry.address or "")
    except ValueError:
        return False
    return parts.scheme == "http" and is_ours({"url": entry.address}) and entry.port == port


def _codex(judged: Judged) -> Iterator[Problem]:
    entry = judged.entry
    if judged.after.get("required") is not True:
        text = f"{entry.where}: {_NOT_REQUIRED}"
        yield Problem(Level.WARN, text, f"write in {entry.where}: required = true")
    names = {name.lower() for key in ("env_http_headers", "http_headers") for name in _keys(entry.entry, key)}
    address = entry.address
    if address is None or judged.update is not None or "cwd=" in address or "/w/" in address:
        return
    if _FOLDER_HEADER not in names:
        text = f"{entry.where}: the header {headers.WORKSPACE_CWD} is missing, so no project is found"
        line = f'env_http_headers = {{ "{headers.WORKSPACE_CWD}" = "PWD" }}'
        yield Problem(Level.WARN, text, judged.cure(line))


def _keys(entry: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = entry.get(key)
    return tuple(value) if isinstance(value, dict) else ()


def client_servers(situation: Situation) -> Iterator[Finding]:
    """Servers of known workspaces that a client starts itself, as far as `lmtb adopt` can move them."""
    if situation.status is None:
        return
    roots = {
        row["root"]: row for row in merged_workspaces(situation.status) if isinstance(row.get("root"), str)
    }
    for root, row in roots.items():
        connected = _connected(Path(root), situation.port)
        started = {
            file: names
            for file, names in _known_to_start(Path(root), situation.paths.state_dir).items()
            if file.client in connected
        }
        if started:
            servers = "; ".join(
                f"{file.client} starts {quoted(names)} of {file.path}" for file, names in started.items()
            )
            text = f"{row.get('workspace')} ({root}): {servers}, in addition to the manager"
            is_told = set(started) == {file for file in started if file.path == claude_approvals.FILE}
            hint = f"run each once: lmtb adopt{'' if is_told else ' --move'} --cwd {shlex.quote(root)}"
            yield Finding(Level.WARN, "client servers", text, hint)


def _connected(root: Path, port: int | None) -> set[str]:
    """The titles of the clients that have an entry of ours: another one shares nothing with the manager."""
    machine = user_machine()
    return {client.title for client in CLIENTS if configuration_of(client, machine, root, port).entries}


def _known_to_start(root: Path, state_dir: Path) -> dict[ServersFile, list[str]]:
    """What clients start, without servers that the user did not allow in Claude Code, which asks."""
    machine = user_machine()
    allowed = read_approvals(machine.environ, machine.home, root).own_servers("")
    started = {}
    for file, names in ProjectFiles(root, state_dir).started_by_clients().items():
        is_asked = file.path == claude_approvals.FILE
        started_names = [
            name for name in names if not is_asked or allowed.starts(file.path, namespace_of(name))
        ]
        if started_names:
            started[file] = started_names
    return started
