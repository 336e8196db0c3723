"""Plans and carries out changes of the files of known clients, and removes all entries of ours. Blocks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.client_setup.change import (
    Change,
    EntryState,
    FileFormat,
    Unchanged,
    addition,
    entry_in,
    removal,
    state_of,
)
from lm_tools_bridge.client_setup.clients import CLIENTS, Client, Machine
from lm_tools_bridge.client_setup.editing import file_access, undo_records
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.editing.undo_records import UndoRecord
from lm_tools_bridge.client_setup.entries import Endpoint, Entry
from lm_tools_bridge.client_setup.hooks import with_hooks
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.undo_merge import undone
from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.private_files import LockTimeout, UnsafePathError
from lm_tools_bridge.protocol.names import USUAL_PORT
from manager.configuration.paths import Paths


@dataclass(frozen=True, slots=True)
class Planned:
    """A change of one file that can be carried out.

    Attributes:
        state: the file as it is.
        after: its new content; None if it is to be deleted.
        folders: those that go with the file, if they are empty.
        keeps_others: whether it takes our change back and keeps what other programs wrote since.
    """

    state: FileState
    after: bytes | None
    folders: tuple[Path, ...] = ()
    keeps_others: bool = False


@dataclass(frozen=True, slots=True)
class Overview:
    """What is known of one client's file.

    Attributes:
        file: its path; the file need not exist.
        installed: whether the client was found.
        entry: our entry as it is there.
        state: what that means; None if the file is refused.
        refusal: why it cannot be used.
        can_undo: whether the last change can be taken back.
    """

    file: Path
    installed: bool
    entry: Entry | None
    state: EntryState | None
    refusal: Refusal | None
    can_undo: bool


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """The files of one user's clients."""

    machine: Machine
    state_dir: Path
    endpoint: Endpoint

    def overview(self, client: Client) -> Overview:
        """What is known of a client's file."""
        state = self.find(client)
        path = self._path(client) if isinstance(state, Refusal) else state.path
        refusal = state if isinstance(state, Refusal) else None
        entry: Entry | None = None
        if not isinstance(state, Refusal):
            present = entry_in(state.content, client.form, str(path))
            refusal, entry = (present, None) if isinstance(present, Refusal) else (None, present)
        meaning = None if refusal else state_of(entry, client.entry(self.endpoint))
        can_undo = isinstance(self.plan_undo(client), Planned)
        return Overview(path, self.is_installed(client), entry, meaning, refusal, can_undo)

    def is_installed(self, client: Client) -> bool:
        """Whether a client's program is on the PATH, or its folder or file exists."""
        path = self.machine.environ.get("PATH", "")
        if any(shutil.which(program, path=path) for program in client.programs):
            return True
        places = (client.sign_folder(self.machine), *client.candidates(self.machine))
        return any(_exists(place) for place in places)

    def find(self, client: Client) -> FileState | Refusal:
        """A client's file: the one that has our entry, else the first that exists, else the one to create."""
        existing = [path for path in client.candidates(self.machine) if _exists(path)]
        states = [file_access.read(path) for path in existing]
        for state in states:
            if isinstance(state, FileState):
                entry = entry_in(state.content, client.form, str(state.path))
                if entry is not None and not isinstance(entry, Refusal):
                    return state
        return states[0] if states else file_access.read(self._path(client))

    def plan_addition(self, client: Client, *, force: bool = False) -> Planned | Unchanged | Refusal:
        """How a client's file would change to have our entry."""
        entry = client.entry(self.endpoint)
        return self._plan(
            client, lambda state: addition(state.content, client.form, entry, str(state.path), force=force)
        )

    def plan_update(self, client: Client) -> Planned | Unchanged | Refusal:
        """How our entry in a client's file would change to what `plan_addition` writes into an empty one."""
        overview = self.overview(client)
        if overview.state == "missing":
            text = f"{client.title} is not configured: {overview.file} has no entry of ours"
            return Refusal("not_configured", text, f"lmtb client add {client.id}")
        return self.plan_addition(client)

    def plan_removal(self, client: Client, *, force: bool = False) -> Planned | Unchanged | Refusal:
        """How a client's file would change to lose our entry."""
        return self._plan(
            client, lambda state: removal(state.content, client.form, str(state.path), force=force)
        )

    def plan_undo(self, client: Client) -> Planned | Refusal:
        """How the last change of a client's file would be taken back; what others wrote since stays."""
        try:
            record = undo_records.load(self.state_dir, client.id)
        except (OSError, UnsafePathError) as error:
            return Refusal("no_undo", f"the undo record cannot be read: {error}", "edit the file by hand")
        if record is None:
            text = f"no change of the file of {client.title} is remembered"
            return Refusal("no_undo", text, f"remove the entry with: lmtb client remove {client.id}")
        state = file_access.read(record.path)
        if isinstance(state, Refusal):
            return state
        return plan_undo_of(record, state, client.form)

    def plan_uninstallation(self, client: Client) -> tuple[Planned | Unchanged | Refusal, bool]:
        """How a client's file loses our entry: by undo if only we changed it, which is the second value."""
        undo = self.plan_undo(client)
        if isinstance(undo, Planned) and entry_in(undo.after, client.form, str(undo.state.path)) is None:
            return undo, True
        return self.plan_removal(client), False

    def changed_since(self, client: Client) -> Change | None:
        """What others changed in a client's file after the change that is remembered."""
        try:
            record = undo_records.load(self.state_dir, client.id)
        except (OSError, UnsafePathError):
            return None
        state = file_access.read(record.path) if record else None
        return Change(record.after, state.content or b"") if record and isinstance(state, FileState) else None

    def carry_out(self, client: Client, planned: Planned, *, undo: bool = False) -> Refusal | None:
        """Write a planned change and check it; remember the old content, or with `undo` forget it."""
        folder = self.state_dir / undo_records.FOLDER
        try:
            private_files.make_private(self.state_dir)
            private_files.make_private(folder)
            with private_files.locked(folder / "lock"):
                return self._undo(client, planned) if undo else self._write(client, planned)
        except (OSError, UnsafePathError, LockTimeout) as error:
            return file_access.unusable_state(error)

    def _path(self, client: Client) -> Path:
        candidates = client.candidates(self.machine)
        return next((path for path in candidates if _exists(path)), candidates[-1])

    def _plan(
        self, client: Client, change: Callable[[FileState], Change | Unchanged | Refusal]
    ) -> Planned | Unchanged | Refusal:
        state = self.find(client)
        if isinstance(state, Refusal):
            return state
        planned_change = change(state)
        if not isinstance(planned_change, Change):
            return planned_change
        return file_access.writable(state) or Planned(state, planned_change.after)

    def _write(self, client: Client, planned: Planned) -> Refusal | None:
        state, after = planned.state, planned.after or b""
        old = undo_records.load(self.state_dir, client.id)
        undo_records.save(self.state_dir, client.id, UndoRecord(state.path, state.content, after))
        new_folders = file_access.replace(state, Change(state.content, after))
        if isinstance(new_folders, Refusal):
            self._restore_record(client, old)
            return new_folders
        if new_folders:
            record = UndoRecord(state.path, state.content, after, tuple(new_folders))
            undo_records.save(self.state_dir, client.id, record)
        return self._verified(client, state.path, after)

    def _undo(self, client: Client, planned: Planned) -> Refusal | None:
        state = planned.state
        if planned.after is None:
            refused = file_access.delete(state, list(planned.folders))
        else:
            result = file_access.replace(state, Change(state.content, planned.after))
            refused = result if isinstance(result, Refusal) else None
        if refused is None:
            undo_records.forget(self.state_dir, client.id)
        return refused

    def _restore_record(self, client: Client, old: UndoRecord | None) -> None:
        if old is None:
            undo_records.forget(self.state_dir, client.id)
        else:
            undo_records.save(self.state_dir, client.id, old)

    def _verified(self, client: Client, path: Path, written: bytes) -> Refusal | None:
        """Read the file again as the client will."""
        state = file_access.read(path)
        if isinstance(state, Refusal):
            return state
        entry = entry_in(state.content, client.form, str(path))
        if state.content == written and not isinstance(entry, Refusal):
            return None
        text = f"{path} does not have what was written: another program changed it"
        return Refusal("changed_meanwhile", text, "close the client, then try again")


def plan_undo_of(record: UndoRecord, state: FileState, form: FileFormat) -> Planned | Refusal:
    """How one change of one file would be taken back; what others wrote since stays."""
    if state.content == record.after:
        return Planned(state, record.before, record.folders)
    if state.content is None:
        text = f"{record.path} was deleted since"
        return Refusal("changed_since", text, "nothing is left to undo, unless you bring the file back")
    after = undone(record.before, record.after, state.content, form, str(record.path))
    if isinstance(after, Refusal):
        return after
    return Planned(state, after, record.folders, keeps_others=True)


def _exists(path: Path) -> bool:
    """Whether there is a file, folder or link, as far as we may look."""
    try:
        return path.is_symlink() or path.exists()
    except OSError:
        return False


_ANY: Final = Endpoint(USUAL_PORT, "lmtb")
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
    def find_all(cls, paths: Paths, home: Path) -> ClientEntries:
        """Look through the files of all known clients."""
        entries = cls(ClientFiles(Machine(dict(os.environ), home, sys.platform), paths.state_dir, _ANY))
        for client in with_hooks(CLIENTS):
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
