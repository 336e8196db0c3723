"""Stores what the user has trusted: one file per workspace in the user's state folder. Fails closed.

If the store is damaged, unreadable, owned by another user or open to others, nothing is trusted and `issue`
says why. A store inside the workspace itself is refused. `records.py` has the form of a record.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.git_worktrees import proven_repository, proven_trees, witnesses
from lm_tools_bridge.protocol.issues import Issue
from workspace_server.trust.inheritance import leads_out
from workspace_server.trust.item import TrustItem, Verdict, trust_command
from workspace_server.trust.records import (
    FolderIdentity,
    InvalidRecordError,
    RecordedItem,
    TrustRecord,
    decode,
    encode,
    record_of,
)

# All texts that a record may hold, escaped as JSON, and the hashes; a larger file is not ours.
MAX_RECORD: Final = 16 * 1024 * 1024
_LOCK: Final = "lock"
_Stamp = tuple[int, ...]


class TrustStoreError(Exception):
    """The store or one of its records cannot be used. Carries the reason and the next step."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class TrustedWorkspace:
    """One workspace with a record: its path, or None and the problem if the record cannot be read."""

    path: str | None
    problem: str | None = None


class TrustStore:
    """The records of all workspaces. All methods block on the disk, writing ones also on a lock.

    Unchanged records are cached: a repeated query costs a few `stat` calls. An item that is not trusted here
    is inherited: it is trusted if the same one was in another working tree of the repository.

    Attributes:
        inherits: whether items are inherited; the user's setting.
    """

    def __init__(self, folder: Path, *, lock_wait_s: float = 5.0) -> None:
        self.inherits = True
        self._folder = folder
        self._lock_wait_s = lock_wait_s
        self._identities: dict[str, FolderIdentity] = {}
        self._read: dict[str, tuple[_Stamp, TrustRecord | TrustStoreError]] = {}

    def verdict(self, root: Path, item: TrustItem) -> Verdict:
        """Whether exactly this content was trusted for exactly this folder."""
        return self.item_verdicts(root, [item])[item.key]

    def item_verdicts(self, root: Path, items: Sequence[TrustItem]) -> dict[str, Verdict]:
        """The verdicts of these items by key. An entry that only moved to another file stays trusted."""
        verdicts = self._own_verdicts(root, {item.key: item.digest() for item in items})
        movable = [item for item in items if item.same_in and verdicts[item.key] == "changed"]
        if movable:
            folder, record = self._read_record(root)
            if isinstance(record, TrustRecord) and folder == record.folder:
                moved = [item.key for item in movable if record.items[item.key].has_only_moved_to(item)]
                verdicts |= dict.fromkeys(moved, "trusted")
        missing = [item for item in items if verdicts[item.key] != "trusted"]
        return verdicts | dict.fromkeys(self.origins(root, missing), "trusted")

    def verdicts(self, root: Path, digests: Mapping[str, str]) -> dict[str, Verdict]:
        """The verdicts of several items by key, given their digests. Never raises."""
        verdicts = self._own_verdicts(root, digests)
        if all(verdict == "trusted" for verdict in verdicts.values()):
            return verdicts
        inherited = self._inherited_digests(root)
        return verdicts | {key: "trusted" for key, digest in digests.items() if (key, digest) in inherited}

    def origins(self, root: Path, items: Sequence[TrustItem]) -> dict[str, str]:
        """From which other working trees these items can be inherited: their paths, by item key."""
        origins: dict[str, str] = {}
        here = os.path.realpath(root)
        for record in self._records_of_siblings(root) if items else ():
            place = record.folder.path
            for item in items:
                recorded = record.items.get(item.key)
                if recorded is not None and recorded.holds_for(item, place, here):
                    origins.setdefault(item.key, place)
        return origins

    def decided(self, root: Path) -> frozenset[tuple[str, str]]:
        """Key and digest of each item that was trusted at this path, or in another working tree."""
        own = {(key, item.digest) for key, item in self.recorded(root).items()}
        return self._inherited_digests(root) | own

    def _own_verdicts(self, root: Path, digests: Mapping[str, str]) -> dict[str, Verdict]:
        folder, record = self._read_record(root)
        if not isinstance(record, TrustRecord):
            return dict.fromkeys(digests, "never")
        same = folder == record.folder
        return {key: _verdict(record.items.get(key), digest, same) for key, digest in digests.items()}

    def issue(self, root: Path) -> Issue | None:
        """The issue, for lists and health, if the workspace's record cannot be used; else None."""
        folder, record = self._read_record(root)
        if isinstance(record, TrustStoreError):
            message = f"Nothing of this workspace is trusted: {record.message}"
            return Issue("error", "trust", "TRUST_STORE_UNUSABLE", message, details=record.next_step)
        if record is not None and folder != record.folder and not self._records_of_siblings(root):
            message = (
                "The folder at this path is not the one that was trusted: it was moved, copied or replaced"
            )
            return Issue("warning", "trust", "TRUST_FOLDER_REPLACED", message, details=trust_command(root))
        return None

    def paths(self, root: Path) -> tuple[str, ...]:
        """The paths that verdicts and issues depend on: the workspace's folder, the store, and the record."""
        identity = self._identities.get(str(root))
        record = () if identity is None else (str(self._folder / _name(identity.path)),)
        return (str(root), str(self._folder.parent), str(self._folder), *record)

    def paths_of_proof(self, root: Path) -> Iterator[str]:
        """The paths that decide which other working trees there are. Records of these lie in the store."""
        if not self.inherits:
            return
        yield from map(str, witnesses(root))
        repository = proven_repository(root)
        if repository is not None:
            yield str(repository / "worktrees")
            for record in self._records_of_siblings(root):
                yield record.folder.path
                yield from map(str, witnesses(Path(record.folder.path)))

    def state(self, root: Path) -> tuple[int | None, ...]:
        """Changes with every decision of the user about this workspace. Blocks."""
        return tuple(map(_change_time, self.paths(root)[1:]))

    def recorded(self, root: Path) -> Mapping[str, RecordedItem]:
        """The recorded items of this path by key, to compare with; empty if there is no valid record.

        This is no verdict: the record may be of another folder that was at this path.
        """
        record = self._read_record(root)[1]
        return record.items if isinstance(record, TrustRecord) else {}

    def data_marks(self, root: Path) -> dict[str, tuple[str, ...]]:
        """The files that trusted commands of this folder may change, as they write them, by item key."""
        folder, record = self._read_record(root)
        is_here = isinstance(record, TrustRecord) and folder == record.folder
        own = record.items if isinstance(record, TrustRecord) and is_here else {}
        records = [each.items for each in reversed(self._records_of_siblings(root))]
        return {
            key: marks for items in (*records, own) for key, item in items.items() if (marks := item.data)
        }

    def _inherited_digests(self, root: Path) -> frozenset[tuple[str, str]]:
        return frozenset(
            (key, item.digest)
            for record in self._records_of_siblings(root)
            for key, item in record.items.items()
            if not leads_out(item.facts)
        )

    def _records_of_siblings(self, root: Path) -> list[TrustRecord]:
        """The records of the other working trees of this folder's repository, which both sides prove.

        A record counts only for the folder and the repository with which it was made. There are none if what
        was trusted in this folder itself cannot be read.
        """
        repository = proven_repository(root) if self.inherits else None
        if repository is None or isinstance(self._read_record(root)[1], TrustStoreError):
            return []
        identity, here, records = _identify(repository), os.path.realpath(root), []
        for tree in proven_trees(repository):
            folder, record = (None, None) if str(tree) == here else self._read_record(tree)
            if isinstance(record, TrustRecord) and folder == record.folder:
                records += [record] if record.repository in {None, identity} else []
        return records

    def workspaces(self) -> list[TrustedWorkspace]:
        """All workspaces with a record, sorted by path; unreadable records last."""
        try:
            names = sorted(name for name in os.listdir(self._folder) if name.endswith(".json"))
        except OSError:
            return []
        workspaces = []
        for name in names:
            record = self._load(self._folder / name)
            if isinstance(record, TrustRecord):
                workspaces.append(TrustedWorkspace(record.folder.path))
            else:
                workspaces.append(TrustedWorkspace(None, f"{record.message}; {record.next_step}"))
        return sorted(
            workspaces,
            key=lambda workspace: (workspace.path is None, workspace.path or "", workspace.problem or ""),
        )

    def trust(self, root: Path, items: Sequence[TrustItem], keep: Collection[str] = ()) -> None:
        """Trust exactly these items of this workspace, in place of those trusted before.

        Args:
            root: the workspace's folder.
            items: the items.
            keep: keys of other items whose trust, if this very folder has it, stays as it is.

        Raises:
            TrustStoreError: the store cannot be used or written; the old record stays.
            ValueError: two items have the same key.
        """
        with self._explained():
            folder = _identify(root)
            repository = proven_repository(root)
            record = record_of(folder, items, None if repository is None else _identify(repository))
            self._refuse_inside(folder)
            private_files.make_private(self._folder)
            with private_files.locked(self._folder / _LOCK, self._lock_wait_s):
                content = encode(replace(record, items={**self._kept(folder, keep), **record.items}))
                if len(content) > MAX_RECORD:
                    raise TrustStoreError(
                        f"the trust record would exceed {MAX_RECORD} bytes", "make the script tools smaller"
                    )
                private_files.write(self._folder / _name(folder.path), content)

    def _kept(self, folder: FolderIdentity, keep: Collection[str]) -> dict[str, RecordedItem]:
        record = self._fetch(folder) if keep else None
        if not isinstance(record, TrustRecord) or folder != record.folder:
            return {}
        return {key: item for key, item in record.items.items() if key in keep}

    def untrust(self, root: Path) -> tuple[str, ...]:
        """Remove the record of this path, which need not exist any more, and those of its repository.

        What was revoked in one working tree must not come back from another. Returns the paths whose records
        were removed, this one first.

        Raises:
            TrustStoreError: a record could not be removed.
        """
        path = os.path.realpath(root)
        with self._explained():
            paths = [path] if os.path.lexists(self._folder / _name(path)) else []
            paths += [other for other in self._paths_of_repository(Path(path)) if other != path]
            if not paths:
                return ()
            with private_files.locked(self._folder / _LOCK, self._lock_wait_s):
                for each in paths:
                    (self._folder / _name(each)).unlink(missing_ok=True)
        return tuple(paths)

    def _paths_of_repository(self, root: Path) -> Iterator[str]:
        """The paths with a record of the repository of a folder, also of working trees that are gone."""
        own, proven = self._load(self._folder / _name(str(root))), proven_repository(root)
        repositories = {None if proven is None else str(proven)}
        if isinstance(own, TrustRecord) and own.repository is not None:
            repositories.add(own.repository.path)
        trees = {str(tree) for path in repositories - {None} for tree in proven_trees(Path(str(path)))}
        for workspace in self.workspaces() if repositories - {None} else ():
            record = self._load(self._folder / _name(workspace.path or ""))
            if not isinstance(record, TrustRecord):
                continue
            repository = None if record.repository is None else record.repository.path
            if repository in repositories - {None} or record.folder.path in trees:
                yield record.folder.path

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except private_files.LockTimeout as busy:
            raise TrustStoreError(str(busy), "try again in a moment") from busy
        except private_files.UnsafePathError as unsafe:
            why = f"{unsafe.path} {unsafe.reason}"
            raise TrustStoreError(why, f"remove {self._folder}, and trust again") from unsafe
        except OSError as error:
            raise _unusable(error, self._folder) from error

    def _read_record(self, root: Path) -> tuple[FolderIdentity | None, TrustRecord | TrustStoreError | None]:
        try:
            folder = self._identity(root)
        except OSError:
            return None, None
        return folder, self._fetch(folder)

    def _identity(self, root: Path) -> FolderIdentity:
        """As `_identify`, but resolves the path again only if it leads to another folder."""
        status = root.stat()
        identity = self._identities.get(str(root))
        if identity is None or (identity.device, identity.inode) != (status.st_dev, status.st_ino):
            identity = self._identities[str(root)] = _identify(root)
        return identity

    def _fetch(self, folder: FolderIdentity) -> TrustRecord | TrustStoreError | None:
        path = self._folder / _name(folder.path)
        try:
            stamp = (*_stamp(os.lstat(self._folder))[:4], *_stamp(os.lstat(path)))
        except FileNotFoundError:
            return None
        except OSError as error:
            return _unusable(error, path)
        cached = self._read.get(folder.path)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        outcome = self._load(path)
        try:
            self._refuse_inside(folder)
        except TrustStoreError as unusable:
            outcome = unusable
        self._read[folder.path] = stamp, outcome
        return outcome

    def _load(self, path: Path) -> TrustRecord | TrustStoreError:
        again = f"remove {path}, and trust again"
        try:
            self._check_folder()
            content = private_files.read(path, MAX_RECORD)
            record = decode(content or b"")
        except TrustStoreError as unusable:
            return unusable
        except private_files.UnsafePathError as unsafe:
            return TrustStoreError(f"{unsafe.path} {unsafe.reason}", again)
        except InvalidRecordError as error:
            return TrustStoreError(f"{path} is not a valid trust record: {error}", again)
        except OSError as error:
            return _unusable(error, path)
        if _name(record.folder.path) != path.name:
            return TrustStoreError(f"{path} belongs to another folder", again)
        return record

    def _check_folder(self) -> None:
        """Refuse a folder that other users can write to. Only `trust` makes it private."""
        status = os.lstat(self._folder)
        again = f"remove {self._folder}, and trust again"
        if not stat.S_ISDIR(status.st_mode):
            raise TrustStoreError(f"{self._folder} is a link or not a folder", again)
        if sys.platform == "win32":  # protected by the profile's access control list
            return
        if status.st_uid != os.geteuid():
            raise TrustStoreError(f"{self._folder} belongs to another user (uid {status.st_uid})", again)
        if status.st_mode & 0o077:
            raise TrustStoreError(
                f"{self._folder} is open to other users", f"chmod 700 {self._folder}, and trust again"
            )

    def _refuse_inside(self, folder: FolderIdentity) -> None:
        if Path(os.path.realpath(self._folder)).is_relative_to(folder.path):
            raise TrustStoreError(
                f"the trust store {self._folder} lies inside this workspace, which could change it",
                "set LMTB_STATE_DIR to a folder outside of it",
            )


def _verdict(recorded: RecordedItem | None, digest: str, same_folder: bool) -> Verdict:
    if recorded is None:
        return "never"
    return "trusted" if same_folder and recorded.digest == digest else "changed"


def _identify(root: Path) -> FolderIdentity:
    path = os.path.realpath(root)
    status = Path(path).stat()
    return FolderIdentity(path, status.st_dev, status.st_ino)


def _name(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:32] + ".json"


def _change_time(path: str) -> int | None:
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return None


def _stamp(status: os.stat_result) -> _Stamp:
    return (
        status.st_dev, status.st_ino, status.st_mode, status.st_uid,
        status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def _unusable(error: OSError, path: Path) -> TrustStoreError:
    return TrustStoreError(
        f"{path} cannot be used: {error.strerror or error}",
        f"check the disk, and owner and mode of {path}",
    )
