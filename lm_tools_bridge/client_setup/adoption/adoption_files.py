"""Moves servers between files for `lmtb adopt`: changes all files or none, and takes that back. Blocks.

The files are those of one project, or those of the user for all projects. In a project, a link on the way to
a file is refused: the project would else decide about files of its user, such as the `workspace.toml` that
needs no trust.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from lm_tools_bridge.client_setup.adoption.decision import WORKSPACE_FILE, Adoption, Contents, decide
from lm_tools_bridge.client_setup.adoption.file_formats import (
    PROJECT_FILES,
    USER_FORMATS,
    ServersFile,
    UserFormat,
    with_private_address,
)
from lm_tools_bridge.client_setup.adoption.left_to_us import (
    SETTINGS_FILE,
    SETTINGS_FORM,
    decide_left_to_us,
)
from lm_tools_bridge.client_setup.change import Change, FileFormat, decoded, value_at
from lm_tools_bridge.client_setup.clients import CLIENTS, Client, Machine
from lm_tools_bridge.client_setup.editing import file_access, undo_records
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.editing.undo_records import UndoRecord
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import Planned, plan_undo_of
from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.private_files import LockTimeout, UnsafePathError


@dataclass(frozen=True, slots=True)
class PlannedAdoption:
    """An adoption, and the changes of files that carry it out."""

    adoption: Adoption
    files: tuple[Planned, ...]


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """Changes to take back.

    Attributes:
        files: how that changes the files; one that is as it was before is left out.
        steps: the changes that are taken back, the oldest first.
        earlier: those that stay, and can be taken back later.
    """

    files: tuple[Planned, ...]
    steps: tuple[Sequence[UndoRecord], ...]
    earlier: tuple[Sequence[UndoRecord], ...]


class AdoptionFiles(ABC):
    """Files with servers, and the `workspace.toml` that they move to.

    Attributes:
        root: the folder that paths start from.
        state_dir: the folder with the undo records.
        target: the path of the `workspace.toml`.
    """

    root: Path
    state_dir: Path
    target: str

    @property
    @abstractmethod
    def files(self) -> Sequence[ServersFile]:
        """Where servers may be, the one with precedence first."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """The name of the undo record."""

    def _read(self, path: str) -> FileState | Refusal:
        return file_access.read(self.root / path)

    def read(self, *more_paths: str) -> dict[str, FileState] | Refusal:
        """Every file by its path, also those that do not exist."""
        states: dict[str, FileState] = {}
        for path in dict.fromkeys((self.target, *(file.path for file in self.files), *more_paths)):
            state = self._read(path)
            if isinstance(state, Refusal):
                return state
            same = next(
                (name for name, other_state in states.items() if other_state.target == state.target), None
            )
            if same is not None:
                text = f"{path} and {same} are the same file"
                return Refusal(
                    "same_file", text, f"replace the link {path} by a file of its own, or remove it"
                )
            states[path] = state
        return states

    def plan(self, names: Collection[str] = ()) -> PlannedAdoption | Refusal:
        """What would move, and how the files would change."""
        return self._plan_with(lambda contents: decide(contents, names, self.files, self.target))

    def _plan_with(
        self, decided: Callable[[Contents], Adoption | Refusal], *more_paths: str
    ) -> PlannedAdoption | Refusal:
        states = self.read(*more_paths)
        if isinstance(states, Refusal):
            return states
        adoption = decided({path: state.content for path, state in states.items()})
        if isinstance(adoption, Refusal):
            return adoption
        files = tuple(Planned(states[path], change.after) for path, change in adoption.changes.items())
        refused = next(filter(None, (file_access.writable(file.state) for file in files)), None)
        return refused or PlannedAdoption(adoption, files)

    def adopt(self, planned: PlannedAdoption) -> Refusal | None:
        """Write all files, or none if one of them fails, and remember the bytes."""
        return self._locked(lambda: self._adopt(planned.files))

    def plan_undo(self, *, whole: bool = False) -> PlannedUndo | Refusal:
        """How the last change would be taken back in all files; what others wrote into them since stays.

        `changed_since` if somebody else changed a server that was moved.

        Args:
            whole: take all changes back, to how the files were before the first.
        """
        try:
            changes = undo_records.load_stack(self.state_dir, self._name)
        except (OSError, UnsafePathError) as error:
            return Refusal("no_undo", f"the undo record cannot be read: {error}", "edit the files by hand")
        if not changes:
            text = f"lmtb adopt changed nothing in {self.root}, or it was taken back already"
            return Refusal("no_undo", text, "see what it would change: lmtb adopt --dry-run")
        steps = changes if whole else changes[-1:]
        states: dict[Path, FileState] = {}
        files: dict[Path, Planned] = {}
        for record in itertools.chain(*reversed(steps)):
            refusal = self._plan_step(record, states, files)
            if refusal is not None:
                return refusal
        planned = [file for path, file in files.items() if file.after != states[path].content]
        return PlannedUndo(tuple(planned), tuple(steps), tuple(changes[: len(changes) - len(steps)]))

    def _plan_step(
        self, record: UndoRecord, states: dict[Path, FileState], files: dict[Path, Planned]
    ) -> Refusal | None:
        """Take one change of a file back, after those that came later; `states` are the files as they are."""
        path = record.path
        if path not in states:
            state = self._read(str(path))
            if isinstance(state, Refusal):
                return state
            states[path] = state
        later = files.get(path)
        now = replace(states[path], content=later.after) if later is not None else states[path]
        if now.content == record.before:
            return None
        file = plan_undo_of(record, now, self._form(path))
        if isinstance(file, Refusal):
            return file
        keeps_others = file.keeps_others or (later is not None and later.keeps_others)
        folders = (*file.folders, *(later.folders if later is not None else ()))
        files[path] = Planned(states[path], file.after, folders, keeps_others)
        return None

    def has_undo(self) -> bool:
        """Whether a change is remembered."""
        return bool(self.changed_paths())

    def changed_paths(self) -> set[Path]:
        """The files with a change that can be taken back."""
        try:
            changes = undo_records.load_stack(self.state_dir, self._name)
        except (OSError, UnsafePathError):
            return set()
        return {record.path for change in changes for record in change}

    def _form(self, path: Path) -> FileFormat:
        forms = {self.root / file.path: file.form for file in self.files}
        return forms.get(path, FileFormat("mcp", dialect=None))  # the `workspace.toml`

    def changed_since(self, records: Sequence[UndoRecord] | None = None) -> list[tuple[FileState, bytes]]:
        """The files that are neither what was written nor what was there before, with what was written."""
        if records is None:
            changes = undo_records.load_stack(self.state_dir, self._name)
            records = changes[-1] if changes else []
        changed_files = []
        for record in records:
            state = self._read(str(record.path))
            if isinstance(state, FileState) and state.content not in (record.after, record.before):
                changed_files.append((state, record.after))
        return changed_files

    def undo(self, planned: PlannedUndo) -> Refusal | None:
        """Restore all files, or none if one of them fails, and forget the changes that were taken back."""
        return self._locked(lambda: self._undo(planned))

    def _locked(self, work: Callable[[], Refusal | None]) -> Refusal | None:
        folder = self.state_dir / undo_records.FOLDER
        try:
            private_files.make_private(self.state_dir)
            private_files.make_private(folder)
            with private_files.locked(folder / "lock"):
                return work()
        except (OSError, UnsafePathError, LockTimeout) as error:
            return file_access.unusable_state(error)

    def _adopt(self, files: Sequence[Planned]) -> Refusal | None:
        old = undo_records.load_stack(self.state_dir, self._name)
        self._remember(old, files, {})
        try:
            folders = write_all(files)
        except BaseException:
            self._restore_record(files, old)
            raise
        if isinstance(folders, Refusal):
            self._restore_record(files, old)
            return folders
        self._remember(old, files, folders)
        return None

    def _restore_record(self, files: Sequence[Planned], old: Sequence[Sequence[UndoRecord]]) -> None:
        """Take back `_remember`, unless a file could not be restored: the new record has its bytes."""
        if any(_content(file.state) != file.state.content for file in files):
            return
        undo_records.save_stack(self.state_dir, self._name, old)

    def _remember(
        self,
        old: Sequence[Sequence[UndoRecord]],
        files: Sequence[Planned],
        folders: Mapping[Path, Sequence[Path]],
    ) -> None:
        records = [
            UndoRecord(
                file.state.path,
                file.state.content,
                file.after or b"",
                tuple(folders.get(file.state.path, ())),
            )
            for file in files
        ]
        undo_records.save_stack(self.state_dir, self._name, [*old, records])

    def _undo(self, planned: PlannedUndo) -> Refusal | None:
        changes = undo_records.load_stack(self.state_dir, self._name)
        if changes != [*planned.earlier, *planned.steps]:
            text = "another command changed these files meanwhile"
            return Refusal("changed_meanwhile", text, "repeat the command")
        folders = write_all(planned.files)
        if isinstance(folders, Refusal):
            return folders
        undo_records.save_stack(self.state_dir, self._name, planned.earlier)
        return None


def write_all(files: Sequence[Planned]) -> dict[Path, list[Path]] | Refusal:
    """Write every file, or restore those that were written if one fails; the folders made for each file."""
    new_folders: dict[Path, list[Path]] = {}
    for number, planned in enumerate(files):
        try:
            written = _write_planned(planned)
        except BaseException:  # Ctrl-C
            _roll_back(files[: number + 1], new_folders)
            raise
        if isinstance(written, Refusal):
            lost = "".join(f"; {failure}" for failure in _roll_back(files[:number], new_folders))
            return replace(written, message=written.message + lost)
        new_folders[planned.state.path] = written
    return new_folders


def _write_planned(planned: Planned) -> list[Path] | Refusal:
    if planned.after is not None:
        return file_access.replace(planned.state, Change(planned.state.content, planned.after))
    return file_access.delete(planned.state, list(planned.folders)) or []


def _content(before: FileState) -> bytes | None:
    state = file_access.read_again(before)
    return state.content if isinstance(state, FileState) else None


def _roll_back(written: Sequence[Planned], new_folders: Mapping[Path, Sequence[Path]]) -> list[str]:
    """Restore files; returns why some could not be restored."""
    lost = []
    for planned in reversed(written):
        path = planned.state.path
        now = file_access.read_again(planned.state)
        back = now if isinstance(now, Refusal) else _restored(now, planned, new_folders.get(path, ()))
        if isinstance(back, Refusal):
            lost.append(f"{path} could not be restored ({back.message}); try: lmtb adopt --undo")
    return lost


def _restored(now: FileState, planned: Planned, folders: Sequence[Path]) -> list[Path] | Refusal:
    if now.content == planned.state.content:
        return []
    if now.content != planned.after:
        return Refusal(
            "changed_meanwhile", f"{now.path} was changed by another program meanwhile", "try again"
        )
    return _write_planned(Planned(now, planned.state.content, tuple(folders)))


@dataclass(frozen=True)
class ProjectFiles(AdoptionFiles):
    """The files of the project in the folder `root`."""

    root: Path
    state_dir: Path
    target: str = WORKSPACE_FILE

    @property
    def files(self) -> Sequence[ServersFile]:
        """The files of clients in a project."""
        return PROJECT_FILES

    def plan_left_to_us(
        self, names: Collection[str] = (), refused_before: Collection[str] = ()
    ) -> PlannedAdoption | Refusal:
        """How Claude Code would be told not to start the servers of `.mcp.json`, which stays as it is.

        Args:
            names: the servers; all if empty.
            refused_before: namespaces of those that it does not start already.
        """
        return self._plan_with(
            lambda contents: decide_left_to_us(contents, names, refused_before), SETTINGS_FILE
        )

    def _form(self, path: Path) -> FileFormat:
        return SETTINGS_FORM if path == self.root / SETTINGS_FILE else super()._form(path)

    @property
    def _name(self) -> str:
        return "project-" + hashlib.sha256(os.fsencode(self.root)).hexdigest()[:32]

    def started_by_clients(self) -> dict[ServersFile, list[str]]:
        """The servers that clients start themselves, of those that can move; none if a file is refused."""
        planned = self.plan()
        names: dict[ServersFile, list[str]] = {}
        for server in () if isinstance(planned, Refusal) else planned.adoption.moved:
            if server.is_started:
                names.setdefault(server.file, []).append(server.name)
        return names

    def _read(self, path: str) -> FileState | Refusal:
        return file_access.read(self.root / path, is_linkable=False)


@dataclass(frozen=True)
class UserFiles(AdoptionFiles):
    """The files of the user of a machine; all paths are absolute."""

    machine: Machine
    state_dir: Path
    target: str
    clients: frozenset[str] | None = None
    """The ids of the clients whose files count; None for all."""

    @property
    def root(self) -> Path:  # type: ignore[override]  # read-only, which the base does not say
        """The home folder, which only messages name."""
        return self.machine.home

    @cached_property
    def files(self) -> Sequence[ServersFile]:
        """The files of the user's clients, and their sections."""
        return _list_user_files(self.machine, self.clients)

    def _read(self, path: str) -> FileState | Refusal:
        """The file. The `workspace.toml` becomes readable by its user only: secrets move to it."""
        state = super()._read(path)
        if path != self.target or isinstance(state, Refusal):
            return state
        return replace(state, mode=state.mode & 0o700)

    @property
    def _name(self) -> str:
        return "user-servers"


def _read_content(path: Path) -> bytes | None:
    state = file_access.read(path)
    return state.content if isinstance(state, FileState) else None


def _list_user_files(machine: Machine, client_ids: frozenset[str] | None) -> Sequence[ServersFile]:
    """Where the user's clients have servers: their files, and sections of these for single projects."""
    clients = {client.id: client for client in CLIENTS}
    files: list[ServersFile] = []
    for user_format in USER_FORMATS:
        if client_ids is not None and user_format.client not in client_ids:
            continue
        client = clients[user_format.client]
        for file in client.candidates(machine):
            files.append(_file(client, user_format, file))
            if user_format.has_sections:
                sections = _projects(client, _read_content(file))
                files += [_file(client, user_format, file, project) for project in sections]
    return tuple(files)


def _file(client: Client, form: UserFormat, file: Path, project: str | None = None) -> ServersFile:
    return ServersFile(
        str(file), client.form.container, client.title, form.bare, form.tilde, form.falls_back,
        dialect=client.form.dialect,
        sections=() if project is None else ("projects", project),
        restated=partial(with_private_address, form.restated),
        project=project,
    )  # fmt: skip


def _projects(client: Client, content: bytes | None) -> Iterator[str]:
    """The folders for which a file has a section with servers; none if it cannot be read."""
    text = decoded(content or b"", "")
    form = FileFormat("projects", client.form.dialect)
    sections = {} if isinstance(text, Refusal) else value_at(text, form, ("projects",))
    for folder, section in sections.items() if isinstance(sections, dict) else ():
        if isinstance(section, dict) and section.get(client.form.container):
            yield folder
