"""Checks the clients for doctor: plays each one in the current folder, and reports what it would see."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from lm_tools_bridge.client_setup.adoption.adoption_files import ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.decision import USER_FILE
from lm_tools_bridge.client_setup.adoption.sharing import Share, plan_for_project, plan_for_user
from lm_tools_bridge.client_setup.cli.context import program, user_machine
from lm_tools_bridge.client_setup.clients import CLIENTS, Client
from lm_tools_bridge.client_setup.configuration_checks import (
    Judged,
    Problem,
    leads_to,
    problems_of_entry,
    problems_of_files,
    program_of,
)
from lm_tools_bridge.client_setup.configured_entries import (
    ClientConfiguration,
    Configured,
    configuration_of,
    uses_servers,
)
from lm_tools_bridge.client_setup.entries import Endpoint, Entry
from lm_tools_bridge.client_setup.played_client import (
    INTRODUCTIONS,
    Place,
    PlayedClient,
    TooLate,
    Tools,
    Unanswered,
    late,
    summary,
    too_late,
    twice,
)
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from lm_tools_bridge.protocol.names import USUAL_PORT
from lm_tools_bridge.terminal.command_line import Failure
from manager.cli.output.findings import Finding, Level, Situation
from manager.cli.output.manager_access import current_folder
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings, by_client
from manager.disk import claude_approvals
from manager.disk.claude_approvals import read_approvals
from manager.routing.client_profiles import ClientProfile, ClientProfiles
from manager.routing.cwd import placeholder_in
from manager.status_reading import objects

PATIENCE_S: Final = 10.0
"""Longest wait for one answer; some clients wait a minute."""
_INSPECT_S: Final = 30.0
"""The project's server may have to start for the answer, which may take 30 s (`start_timeout_s`)."""


def clients(situation: Situation) -> Iterator[Finding]:
    """What each client sees whose files name our manager."""
    try:
        place = _place(situation)
    except Failure as problem:
        text = f"not checked: {problem.message}"
        yield Finding(Level.WARN, "clients", text, "change to another one; then again: lmtb doctor")
        return
    configurations = [
        configuration
        for configuration in _configurations(situation, place, CLIENTS)
        if configuration.entries or configuration.refusals
    ]
    if not configurations:
        text = "none is configured to use this manager"
        yield Finding(Level.OK, "clients", text, "see what is installed: lmtb client list")
    elif situation.status is None:
        titles = ", ".join(configuration.client.title for configuration in configurations)
        text = f"{titles}: only the files are checked, because no manager is running"
        yield Finding(Level.WARN, "clients", text, "lmtb up; then again: lmtb doctor")
    for _, findings in _played_at_once(situation, place, configurations):
        yield from findings


def findings_of(situation: Situation, clients: Iterable[Client]) -> Iterator[tuple[Client, list[Finding]]]:
    """Each of these clients, with what it would see in the current folder.

    Raises:
        Failure: the current folder cannot be used.
    """
    place = _place(situation)
    yield from _played_at_once(situation, place, _configurations(situation, place, clients))


def _configurations(
    situation: Situation, place: Place, clients: Iterable[Client]
) -> list[ClientConfiguration]:
    root = place.root or place.folder
    return [configuration_of(client, place.machine, root, situation.port) for client in clients]


def _played_at_once(
    situation: Situation, place: Place, configurations: Iterable[ClientConfiguration]
) -> Iterator[tuple[Client, list[Finding]]]:
    with ThreadPoolExecutor(max_workers=len(CLIENTS)) as pool:
        yield from pool.map(
            lambda configuration: (configuration.client, list(_client(situation, place, configuration))),
            configurations,
        )


def _place(situation: Situation) -> Place:
    machine = user_machine()
    folder = Path(current_folder(situation.folder))
    try:
        answer = Control(situation.paths.control_socket).post("/resolve", {"cwd": str(folder)})
        root: Path | None = Path(str(answer["match"]["workspaceFolders"][0]))
    except (NoManager, ManagerFault, ControlRefusal, KeyError, IndexError, TypeError):
        root = None
    return Place(machine, folder, root)


def _client(situation: Situation, place: Place, configuration: ClientConfiguration) -> Iterator[Finding]:
    """The findings for one client: one if all is well, else one for each problem."""
    title, port = configuration.client.title, situation.port
    path = place.machine.environ.get("PATH")
    problems = list(problems_of_files(configuration))
    judged = [
        Judged.of(configuration.client, entry, _wanted(configuration.client, entry, port, path))
        for entry in configuration.entries
    ]
    for judged_entry in judged:
        problems += problems_of_entry(judged_entry, port, path)
    if configuration.entries and not uses_servers(
        configuration.client, place.machine, place.root or place.folder
    ):
        text = f"it does not trust {place.folder}, and uses no servers in a folder that it does not trust"
        problems.append(Problem(Level.WARN, text, "start it there, and choose to trust the folder"))
    usable = [
        judged_entry
        for judged_entry in judged
        if judged_entry.entry.is_ours
        and not judged_entry.entry.is_disabled
        and (judged_entry.entry.address is None or (port and leads_to(judged_entry.entry, port)))
    ]
    sentence = ""
    if situation.status is not None and usable:
        sentence, more = _played(situation, place, configuration, usable[0])
        problems += more
    for level, text, hint in problems:
        yield Finding(level, title, text, hint)
    if sentence:
        yield Finding(Level.OK, title, sentence)


def _of_allowed(configuration: ClientConfiguration, place: Place) -> ClientConfiguration:
    """Without servers of the project that the user did not allow in Claude Code, which asks about each."""
    if configuration.client.id != "claude-code":
        return configuration
    allowed = read_approvals(place.machine.environ, place.machine.home, place.folder).own_servers("")
    others = tuple(
        own
        for own in configuration.others
        if own.place.scope != "project" or allowed.starts(claude_approvals.FILE, namespace_of(own.name))
    )
    return replace(configuration, others=others)


def _wanted(client: Client, entry: Configured, port: int | None, path: str | None) -> Entry:
    """The entry that we write today; another program of ours that is there is as good."""
    new_entry = client.entry(Endpoint(port or entry.port or USUAL_PORT, program()))
    present = program_of(entry)
    if present is None or "command" not in new_entry or shutil.which(present, path=path) is None:
        return new_entry
    return {**new_entry, "command": present}


def _played(
    situation: Situation, place: Place, configuration: ClientConfiguration, judged: Judged
) -> tuple[str, list[Problem]]:
    """What the client sees, empty if nothing, and its problems."""
    entry = judged.entry
    introduction = INTRODUCTIONS[configuration.client.id]
    profile = _profiles(situation).of(introduction.name, introduction.version)
    wait_s = _wait_s(entry, profile)
    root = "file://" + quote(os.fsencode(place.folder))
    address = _address(situation, place, configuration, entry)
    player = PlayedClient(introduction, address, entry.headers, root, PATIENCE_S, profile.reads_all_pages)
    try:
        view = player.play()
    except TooLate as reason:
        return "", [too_late(reason, wait_s, _tools(situation, place), place)]
    except Unanswered as reason:
        return "", [Problem(Level.FAIL, f"{entry.where}: {reason}", "look at: lmtb log")]
    tools = _tools(situation, place) if view.workspace else Tools()
    problems = list(late(view, wait_s, tools, profile, place))
    client = configuration.client
    problems += twice(
        view, _of_allowed(configuration, place), lambda own: _double_cure(situation.paths, place, own, client)
    )
    if view.workspace is None and place.root is not None and configuration.client.sends_folder:
        text = f"{entry.where}: {place.root} is not found, so it sees the manager's own tools only"
        own = "give the project its own address, /w/ID/mcp (the ID is in: lmtb workspaces)"
        hint = f"{judged.update or own}; or let the model name the folder"
        problems.append(Problem(Level.WARN, text, hint))
    return summary(view, tools, place), problems


def _double_cure(paths: Paths, place: Place, own: Configured, client: Client) -> str:
    """How a client is kept from starting a server: `lmtb adopt`, if that tells it or moves the server."""
    name = shlex.quote(own.name)
    if own.place.scope == "user":
        user_files = UserFiles(place.machine, paths.state_dir, str(paths.config_dir / USER_FILE))
        if _concerns(plan_for_user(user_files, [own.name]), own):
            return f"lmtb adopt --user {name}"
    else:
        files = ProjectFiles(place.root or place.folder, paths.state_dir)
        by_default = plan_for_project(files, place.machine, [own.name])
        is_told = client.id == "claude-code" or (isinstance(by_default, Share) and by_default.moves)
        if is_told and _concerns(by_default, own):
            return f"lmtb adopt {name}"
        if _concerns(plan_for_project(files, place.machine, [own.name], moves=True), own):
            return f"lmtb adopt --move {name}"
    return f'remove the entry "{own.name}" from {own.where}, or disable it there'


def _concerns(share: Share | Refusal, own: Configured) -> bool:
    if isinstance(share, Refusal):
        return False
    places = {share.files.root / server.file.path for server in share.planned.adoption.moved}
    return own.place.file in places


def _profiles(situation: Situation) -> ClientProfiles:
    """The profiles of clients, with the values of the user's settings if they can be read."""
    return ClientProfiles(by_client(situation.settings) if isinstance(situation.settings, Settings) else None)


def _address(
    situation: Situation, place: Place, configuration: ClientConfiguration, entry: Configured
) -> str:
    """Where the client connects to.

    `lmtb connect` sends the folder in which it is started, also for a variable that nobody expanded.
    """
    if entry.address is not None:
        return entry.address
    words = entry.entry.get("args")
    words = list(map(str, words)) if isinstance(words, list) else []
    started_in = place.folder if configuration.client.sends_folder else place.machine.home
    folder = words[words.index("--cwd") + 1] if "--cwd" in words[:-1] else str(started_in)
    if placeholder_in(folder) is not None:
        folder = str(started_in)
    return f"http://127.0.0.1:{situation.port}/mcp?cwd={quote(os.fsencode(folder))}"


def _wait_s(entry: Configured, profile: ClientProfile) -> float:
    """How long the client waits for connecting and the first list."""
    if entry.entry.get("required") is True:
        seconds = entry.entry.get("startup_timeout_sec", 30)
        return float(seconds) if isinstance(seconds, int | float) else 30.0
    return profile.first_list_s


def _tools(situation: Situation, place: Place) -> Tools:
    control = Control(situation.paths.control_socket, _INSPECT_S)
    try:
        answer = control.post("/inspect", {"cwd": str(place.folder)})
    except (NoManager, ManagerFault, ControlRefusal):
        return Tools()
    return Tools(tuple(objects(answer, "tools")), tuple(objects(answer, "sources")))
