"""Offers to run the servers that clients already have from here, so that each runs only once.

Nothing of a project's own files is moved: Claude Code is told not to start the servers of `.mcp.json`.
Those of the user's files move to the user's `workspace.toml`, because the client would start them otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.client_setup.adoption.adoption_files import ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.decision import USER_FILE, Server
from lm_tools_bridge.client_setup.adoption.left_to_us import DISABLED, TOLD_BEFORE
from lm_tools_bridge.client_setup.adoption.project_entry import LEADS_TO_US
from lm_tools_bridge.client_setup.adoption.sharing import (
    Share,
    find_projects,
    plan_for_project,
    plan_for_user,
)
from lm_tools_bridge.client_setup.cli.context import known_projects, user_machine
from lm_tools_bridge.client_setup.cli.share_texts import (
    next_step,
    place_of,
    share_json,
    show_share,
    texts_of,
)
from lm_tools_bridge.client_setup.clients import CLIENTS, Client
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.terminal.command_line import say
from lm_tools_bridge.terminal.views import Note, Tone
from manager.cli.output.file_changes import short
from manager.cli.output.manager_access import user_paths
from manager.status_reading import quoted

_RUN_ONCE_ALREADY: Final = frozenset({LEADS_TO_US, TOLD_BEFORE, DISABLED})
"""Reasons why a server stays that need no word: no second copy of it runs."""


_NAMES: Final = "Claude Code then names their tools mcp__lm-tools-bridge__…: change rules with old names."


class SharingOffer:
    """One offer for all servers of the clients that a command adds.

    Attributes:
        shares: what would change, by project; the user's own files first.
    """

    def __init__(self) -> None:
        self.shares: list[Share] = []
        self._refusals: list[tuple[Path, Refusal]] = []
        self._clients: frozenset[str] = frozenset()
        self._done: list[Share] = []

    def look(self, clients: Collection[str]) -> None:
        """Find the servers of clients with these ids."""
        self._clients = frozenset(clients)
        plans = list(self._plans())
        self.shares = [plan for _, plan in plans if isinstance(plan, Share)]
        self._refusals = [(root, plan) for root, plan in plans if isinstance(plan, Refusal)]

    def _plans(self) -> Iterator[tuple[Path, Share | Refusal]]:
        paths, machine = user_paths(), user_machine()
        own = UserFiles(machine, paths.state_dir, str(paths.config_dir / USER_FILE), self._clients)
        yield machine.home, plan_for_user(own)
        if "claude-code" not in self._clients:
            return
        for root in find_projects(machine, known_projects()):
            yield root, plan_for_project(ProjectFiles(root, paths.state_dir), machine, moves=False)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not self._changing()

    def _changing(self) -> list[Share]:
        return [share for share in self.shares if share.planned.files]

    def show(self, *, with_changes: bool) -> None:
        """Print what changes and what stays; with all changes of files on demand."""
        changing = self._changing()
        if changing:
            say("", "Servers that would run once, from here, for all agents:")
            say(*(f"  {line}" for share in changing for line in texts_of(share, is_done=False)))
            say("  No file of a project changes for colleagues.")
            say(f"  {_NAMES}")
        titles = {client.title for client in CLIENTS if client.id in self._clients}
        staying = [
            (share, server)
            for share in self.shares
            for server in share.planned.adoption.left
            if server.file.client in titles and server.reason not in _RUN_ONCE_ALREADY
        ]
        if staying:
            say("Servers that stay where they are:")
            say(*(f"  {_name(share, server)}: {server.reason}" for share, server in staying))
        for root, refusal in self._refusals:
            say(Note(f"  {short(root)}: {refusal.message}; {refusal.next_step}", Tone.WARN))
        for share in changing if with_changes else ():
            show_share(share.files, share.planned.files)

    def carry_out(self) -> list[dict[str, Any]]:
        """Change the files as they are now, and say what is next; returns each share for programs."""
        self.look(self._clients)  # the entry of a client was written into the same file
        results: list[dict[str, Any]] = []
        for share in self._changing():
            refusal = share.files.adopt(share.planned)
            results.append({"result": "done" if refusal is None else "refused", **share_json(share)})
            if refusal is None:
                self._done.append(share)
            else:
                text = f"{short(share.files.root)}: {refusal.message}; {refusal.next_step}"
                say(Note(text, Tone.BAD), err=True)
        return results

    def say_done(self) -> bool:
        """Say what was done, how to undo it, and what is next; returns whether anything was."""
        if self._done:
            say(*(line for share in self._done for line in texts_of(share)))
            say(f"Next step: {next_step(self._done)}")
        return bool(self._done)

    def planned_json(self, result: str) -> list[dict[str, Any]]:
        """What would have changed, for programs."""
        return [{"result": result, **share_json(share)} for share in self._changing()]


def clients_without_servers(clients: Iterable[Client]) -> list[str]:
    """Titles of the clients whose own servers were moved, so that they lose these with our entry."""
    paths, machine = user_paths(), user_machine()
    changed = UserFiles(machine, paths.state_dir, str(paths.config_dir / USER_FILE)).changed_paths()
    return [client.title for client in clients if changed.intersection(client.candidates(machine))]


def _name(share: Share, server: Server) -> str:
    folder = "" if isinstance(share.files, UserFiles) else f"{short(share.files.root)}/"
    return f"{quoted([server.name])} in {folder}{place_of(server)}"
