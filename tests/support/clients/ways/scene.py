"""One user with a manager, an agent program and projects that differ; in it an agent is started in one way."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.clients.agent_table import AGENTS
from support.clients.agent_workplace import AS_SHIPPED, program_folder, usual_folders
from support.clients.agents import Agent, InstalledAgents, Place, end_strays, environ_of
from support.clients.ways.conversations import Conversation, Conversations, Reading
from support.clients.ways.entries import NAME, entry_of, plugin_files
from support.clients.ways.outcomes import Folder
from support.clients.ways.programs import Program, program
from support.processes.managers.manager_home import ManagerHome, ManagerProcess, manager_home
from support.servers.models.scripted_model import scripted_model

DOCUMENTED = "documented"
FILE = "nonce.txt"
_OWN = r"(?:[Ww]orking [Dd]irectory: |<cwd>|working in the directory: |Workspace Directories:\*\*\\n +- )"
"""How agents tell their models the folder in which they work; our instructions may name another one."""
_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")


class NoSuchEntry(Exception):
    """The agent cannot be configured like that."""


@dataclass
class Scene:
    """The folders, and what was read so far.

    Attributes:
        place: where the agent has its files; its project is `a`.
        plugin: the folder of a plugin that the agent is to load.
        folders: all in which agents work.
        readings: what models were answered, in order.
        first_request_s: seconds from a program's start to its first request to the model.
    """

    agent: Agent
    installed: InstalledAgents
    home: ManagerHome
    manager: ManagerProcess
    place: Place
    conversations: Conversations
    plugin: Path | None
    folders: list[Folder] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    talks: list[Conversation] = field(default_factory=list)
    first_request_s: list[float] = field(default_factory=list)
    number: int = 0

    @property
    def a(self) -> Path:
        """The first project."""
        return self.folders[0].path

    @property
    def b(self) -> Path:
        """The second project."""
        return self.folders[1].path

    @property
    def package(self) -> Path:
        """A package of a third project."""
        return self.folders[3].path

    def conversation(self) -> Conversation:
        """One more session of the agent."""
        talk = Conversation(self.agent, self._whoami, self.readings)
        self.talks.append(talk)
        return self.conversations.add(talk)

    async def _whoami(self) -> str:
        return (await self.home.lmtb("whoami")).out

    def command(self, talk: Conversation, *extra: str) -> Sequence[str]:
        """The command that works on the conversation's prompt, with more options in front of it."""
        arguments = self.agent.arguments
        at = len(arguments) - (arguments[-1:] == ("-p",))
        before, last = arguments[:at], arguments[at:]
        return (
            *self.installed.command(self.agent),
            *before,
            *self.plugin_options,
            *extra,
            *last,
            talk.prompt,
        )

    @property
    def plugin_options(self) -> Sequence[str]:
        """What has the agent load the plugin."""
        return (
            ("--plugin-dir", str(self.plugin)) if self.plugin and self.agent.client == "claude-code" else ()
        )

    @asynccontextmanager
    async def start(
        self,
        talk: Conversation,
        *extra: str,
        cwd: Path,
        pwd: Path | None = None,
        has_pwd: bool = True,
        command: Sequence[str] = (),
        lasts: bool = True,
        has_terminal: bool = False,
    ) -> AsyncIterator[Program]:
        """Start the agent.

        Args:
            talk: the session.
            extra: more options.
            cwd: where it is started.
            pwd: the variable of the shell's folder, by default the same.
            has_pwd: whether there is such a variable.
            command: the whole command, in place of the usual one.
            lasts: whether the session ends with the program.
            has_terminal: whether it is started at a terminal.
        """
        self.number += 1
        configured = self.agent.configure(self.place)
        environ = {**environ_of(self.place), **configured, "PWD": str(pwd or cwd)}
        if not has_pwd:
            del environ["PWD"]
        if has_terminal:
            environ["TERM"] = "xterm-256color"
        log = self.place.home / f"output-{self.number}.log"
        words = command or self.command(talk, *extra)
        async with program(words, environ, cwd, log, has_terminal=has_terminal) as running:
            talk.ended = running.ended if lasts else None
            await talk.begin()
            self.first_request_s.append(talk.requests[0].at - running.began)
            yield running

    def add_worktree(self) -> Path:
        """The worktree that the agent has made of the first project; its file gets a text of its own."""
        listed = subprocess.run(
            ["git", "-C", str(self.a), "worktree", "list", "--porcelain"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        lines = listed.splitlines()
        paths = [Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]
        known = {folder.path for folder in self.folders}
        (path,) = [path for path in paths if path not in known]
        self._add(path, path, f"of the worktree {path.name}")
        return path

    def own_folder(self, talk: Conversation) -> Path:
        """The project in which the agent tells its model that it works."""
        told = json.dumps(talk.requests[0].body, ensure_ascii=False)
        (folder,) = [path for path in (self.a, self.b) if re.search(rf"{_OWN}{re.escape(str(path))}\b", told)]
        return folder

    def add_projects(self, root: Path) -> None:
        """Two projects, and a third one with a package in it."""
        for name in ("a", "b", "mono"):
            self._add(root / name, root / name, f"of project {name}")
        self._add(root / "mono/packages/web", root / "mono", "of the package web")
        for name in ("a", "b", "mono"):
            for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "All")):
                subprocess.run([*_GIT, *words], cwd=root / name, check=True)

    def _add(self, path: Path, project: Path, text: str) -> None:
        path.mkdir(parents=True, exist_ok=True)
        (path / FILE).write_text(f"{text}, {time.time_ns()}\n")
        self.folders.append(Folder(path, project, text))


@asynccontextmanager
async def scene(name: str, kind: str, installed: InstalledAgents, root: Path) -> AsyncIterator[Scene]:
    """A scene for an agent with an entry; no process of it is left.

    Args:
        name: the agent's.
        kind: the entry's, or `DOCUMENTED` for what our documentation tells users to write.
        installed: where the agents are.
        root: an empty folder, with a short path.

    Raises:
        NoSuchEntry: the agent has no such entry.
    """
    agent = AGENTS[name]
    if kind == "plugin" and name == "claude-code":
        agent = replace(agent, prefix=f"mcp__plugin_bridge_{NAME}__")
    session = root / "run"
    session.mkdir(mode=0o700)
    xdg = {"XDG_RUNTIME_DIR": str(session)}
    environ = {**usual_folders(root / "user/home", **xdg), **xdg}
    conversations = Conversations()
    async with (
        manager_home(root / "user", forks=True, environ=environ) as home,
        scripted_model(conversations.next_step) as model,
    ):
        manager = await home.start(**AS_SHIPPED)
        entry = None if kind == DOCUMENTED else entry_of(name, kind, manager.address)
        if entry is None and kind != DOCUMENTED:
            raise NoSuchEntry
        plugin = _write_plugin(name, manager.address, root) if kind == "plugin" else None
        shell = {"PATH": f"{program_folder(home)}:{home.environ['PATH']}", **xdg}
        place = Place(root / "agent", root / "a", manager.address, model.url, shell, entry, (root / "b",))
        place.home.mkdir(exist_ok=True)
        made = Scene(agent, installed, home, manager, place, conversations, plugin)
        made.add_projects(root)
        try:
            yield made
        finally:
            for talk in made.talks:
                talk.finish()
            await end_strays(place.home)


def _write_plugin(agent: str, address: str, root: Path) -> Path:
    folder = (
        root / "lm_tools_bridge/agent/.gemini/extensions/bridge" if agent == "gemini-cli" else root / "plugin"
    )
    for name, text in plugin_files(agent, address).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
