"""Keeps a look at a project's files current by the kernel's events; looks again where they do not suffice.

An empty queue of events proves that the last look still holds. That costs microseconds, however many files
there are. Files that events name are looked at alone. After changes of folders all folders are listed again,
but files that no event names are not asked for their state. Everything is looked at again if the queue
overflowed, and every `LOOK_AGAIN_S` seconds, for what no event shows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.tree.relevant_files import (
    GENERATED_MARKS,
    SKIPPED_FOLDERS,
    Relevance,
)
from lm_tools_bridge.code_intelligence.tree.tree_changes import Snapshot
from lm_tools_bridge.code_intelligence.tree.tree_scan import NOTHING, Held, scan, state_of
from lm_tools_bridge.machine.disks import are_local
from workspace_server.files.folder_events import Events, FolderEvents

LOOK_AGAIN_S: Final = 60.0
"""Memory that a program maps for long, and changes below a file system cause no events."""
MAX_TOUCHED: Final = 5_000
"""If more files changed, everything is looked at."""
MAX_ELSEWHERE: Final = 200
"""So many links, and files with several names, are looked at each time; with more, everything is."""
Identity = tuple[int, int]


class WatchedTree:
    """The files below some folders. One user at a time, in any thread.

    Args:
        folders: absolute and link-free.
        open_events: makes the queue; None if there is none.
        clock: monotonic seconds.
        wall_ns: the wall clock.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        open_events: Callable[[], FolderEvents | None] = FolderEvents.open,
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folders = tuple(folders)
        self._open_events = open_events
        self._clock = clock
        self._wall_ns = wall_ns
        self._events: FolderEvents | None = None
        self._open_at = 0.0
        self._snapshot: Snapshot | None = None  # to which the events are to be added
        self._roots: Sequence[Identity | None] = ()
        self._look_at = 0.0
        self._touched: set[str] = set()
        self._changed: set[str] = set()  # folders

    def is_unchanged(self, relevance: Relevance) -> bool:
        """Whether nothing changed since the last look began; False if that is not proven."""
        self._take_in(relevance)
        return self._snapshot is not None and not (self._touched or self._changed)

    def look(self, relevance: Relevance) -> Snapshot:
        """The files as they are now. Blocks."""
        self._take_in(relevance)
        last_look = self._snapshot
        if last_look is not None and self._has_new_name(last_look):
            last_look = None
        if last_look is None or self._changed:
            return self._look_at_all(relevance, last_look)
        self._snapshot = self._updated(last_look)
        self._touched = set()
        return self._snapshot

    def close(self) -> None:
        """Give the queue back; a later look makes another one. Idempotent."""
        self._snapshot, self._open_at = None, 0.0
        if self._events is not None:
            self._events.close()
            self._events = None

    def _take_in(self, relevance: Relevance) -> None:
        """Note which files changed; forget the last look if only another one can tell."""
        last_look, events = self._snapshot, self._events
        if last_look is None or events is None:
            return
        if (
            last_look.relevance != relevance
            or self._clock() >= self._look_at
            or not self._note(events.read(), last_look)
            or self._identities() != self._roots
        ):
            self._snapshot = None

    def _note(self, events: Events, last_look: Snapshot) -> bool:
        """Whether the changed files and folders are known by name."""
        if events.is_lost:
            return False
        for folder in events.folders:
            above, _, name = folder.rpartition("/")
            if name in GENERATED_MARKS:
                return False
            if name not in SKIPPED_FOLDERS and above not in last_look.generated | last_look.copies:
                self._changed.add(folder)
        for path in events.files:
            folder, _, name = path.rpartition("/")
            if name in GENERATED_MARKS or name == ".git":  # a git worktree came, or went
                return False
            if folder in last_look.copies:
                continue
            if name in last_look.relevance.names or (
                last_look.relevance.includes(name) and folder not in last_look.generated
            ):
                self._touched.add(path)
            if path in last_look.links or os.path.islink(path):
                self._changed.add(folder)
        for path in last_look.elsewhere:
            if state_of(path, self._folders)[0] != last_look.files.get(path):
                self._touched.add(path)
        return len(self._touched) <= MAX_TOUCHED

    def _has_new_name(self, last_look: Snapshot) -> bool:
        """Whether a changed file, which had one name, has several: another one may be a file of ours."""
        changed = self._touched - last_look.elsewhere
        return any(state_of(path, self._folders)[1] and not os.path.islink(path) for path in changed)

    def _updated(self, last_look: Snapshot) -> Snapshot:
        taken_ns = self._wall_ns()
        files, elsewhere = dict(last_look.files), set(last_look.elsewhere)
        for path in self._touched:
            state, is_elsewhere = state_of(path, self._folders)
            if state is None:
                files.pop(path, None)
            else:
                files[path] = state
            (elsewhere.add if is_elsewhere else elsewhere.discard)(path)
        return replace(last_look, files=files, taken_ns=taken_ns, elsewhere=frozenset(elsewhere), digests={})

    def _look_at_all(self, relevance: Relevance, last_look: Snapshot | None) -> Snapshot:
        """List everything; of files that are known to be as they were, nothing is asked."""
        self._snapshot = None
        before, events = self._events, self._queue()
        if events is None:
            self._touched, self._changed = set(), set()
            return scan(self._folders, relevance, wall_ns=self._wall_ns)
        roots, missed = self._identities(), False

        def watch(folder: str) -> None:
            nonlocal missed
            missed = missed or not events.watch(folder)

        newest, held = events.begin(), NOTHING
        if last_look is not None and events is before and self._note(newest, last_look):
            but = self._touched | last_look.elsewhere
            files = {path: state for path, state in last_look.files.items() if path not in but}
            held = Held(files, frozenset(self._changed))
        self._touched, self._changed = set(), set()
        snapshot = scan(self._folders, relevance, wall_ns=self._wall_ns, before_listing=watch, held=held)
        events.end()
        if missed or _is_partial(snapshot):
            self.close()
            self._open_at = self._clock() + LOOK_AGAIN_S
        else:
            self._snapshot, self._roots = snapshot, roots
            self._look_at = self._clock() + LOOK_AGAIN_S
        return snapshot

    def _queue(self) -> FolderEvents | None:
        """The queue of events; None where there is none, or events do not show everything."""
        if self._events is not None and not are_local(
            self._folders
        ):  # a disk of the network was mounted meanwhile
            self.close()
            self._open_at = self._clock() + LOOK_AGAIN_S
        if self._events is None and self._clock() >= self._open_at:
            self._open_at = self._clock() + LOOK_AGAIN_S
            if are_local(self._folders):
                self._events = self._open_events()
        return self._events

    def _identities(self) -> Sequence[Identity | None]:
        return [_identity(folder) for folder in self._folders]


def _is_partial(snapshot: Snapshot) -> bool:
    return snapshot.is_cut or snapshot.folders is not None or len(snapshot.elsewhere) > MAX_ELSEWHERE


def _identity(folder: Path) -> Identity | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
