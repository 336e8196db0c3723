"""Finds and removes the entries that `lmtb client add` wrote into the files of clients."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.client_setup.clients import CLIENTS, Client, Machine
from lm_tools_bridge.client_setup.entries import Endpoint
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import ClientFiles, Planned
from manager.configuration.paths import Paths

_ANY: Final = Endpoint(47100, "lmtb")
"""An entry of any port is removed, so that this one does not matter."""


class Removal(NamedTuple):
    """How one client loses our entry; `is_undo` if its file is restored to what it was before."""

    client: Client
    plan: Planned
    is_undo: bool


@dataclass(slots=True)
class ClientEntries:
    """What is in the files of this user's clients; a file that cannot be changed stays as it is."""

    files: ClientFiles
    planned: list[Removal] = field(default_factory=list)
    refused: list[tuple[Client, Refusal]] = field(default_factory=list)

    @classmethod
    def found(cls, paths: Paths, home: Path) -> ClientEntries:
        """Look through the files of all known clients."""
        entries = cls(ClientFiles(Machine(dict(os.environ), home, sys.platform), paths.state_dir, _ANY))
        for client in CLIENTS:
            plan, is_undo = entries.files.plan_uninstallation(client)
            if isinstance(plan, Planned):
                entries.planned.append(Removal(client, plan, is_undo))
            elif isinstance(plan, Refusal):
                entries.refused.append((client, plan))
        return entries

    def remove(self) -> Iterator[str]:
        """Remove the entries; yields the title of each client that is done."""
        planned, self.planned = self.planned, []
        for client, plan, is_undo in planned:
            refusal = self.files.carry_out(client, plan, undo=is_undo)
            if refusal is None:
                yield client.title
            else:
                self.refused.append((client, refusal))

    def left(self) -> Iterator[str]:
        """What is still in files of clients, or may be, for people."""
        for client, plan, _ in self.planned:
            yield f"the entry of {client.title} in {plan.state.path}"
        for client, refusal in self.refused:
            yield f"{client.title}: {refusal.message}; {refusal.next_step}"
