"""Tells several language servers which of a workspace's files changed on disk since each looked last."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from workspace_server.files.single_flight import SingleFlight
from workspace_server.sources.language_servers.session.relevant_files import Relevance
from workspace_server.sources.language_servers.session.tree_changes import Changes, Snapshot, difference
from workspace_server.sources.language_servers.session.tree_scan import digest, scan

MAX_DIGESTS: Final = 64
FEW_FILES: Final = 2_000


class TreeWatch:
    """Looks at the folders of a workspace, for all its servers at once. Looks only when asked.

    Args:
        folders: absolute and link-free.
        look: the blocking look at them.
    """

    def __init__(
        self, folders: Sequence[Path], look: Callable[[Sequence[Path], Relevance], Snapshot] = scan
    ) -> None:
        self._folders = tuple(folders)
        self._look = look
        self._relevance = Relevance()
        self._looks = SingleFlight(self._scan)
        self._unsettled: list[str] = []

    def watcher(self, relevance: Relevance) -> Watcher:
        """For one server. What is relevant to any of them is looked at for all."""
        self.include(relevance)
        return Watcher(self, relevance)

    def include(self, relevance: Relevance) -> None:
        """Look at these files, too, from the next look on."""
        self._relevance |= relevance

    async def snapshot(self) -> Snapshot:
        """A look that began after this call, shared with others who ask at about the same time."""
        return await self._looks.get()

    async def close(self) -> None:
        """Wait a moment for a look under way."""
        await self._looks.close()

    def _scan(self) -> Snapshot:
        snapshot = self._look(self._folders, self._relevance)
        unsettled = sorted(snapshot.unsettled())[:MAX_DIGESTS]
        digests = {path: digest(path) for path in (*self._unsettled, *unsettled)}
        self._unsettled = unsettled
        return replace(snapshot, digests={path: one for path, one in digests.items() if one is not None})


@dataclass(frozen=True, slots=True)
class Look:
    """What a watcher found; `Watcher.accept` makes it the state to compare with."""

    changes: Changes
    snapshot: Snapshot


class Watcher:
    """What changed for one server since the look that it accepted last.

    Attributes:
        relevance: the files that matter to it.
    """

    def __init__(self, watch: TreeWatch, relevance: Relevance) -> None:
        self._watch = watch
        self._accepted: Snapshot | None = None
        self.relevance = relevance

    def include(self, relevance: Relevance) -> None:
        """Let these files matter, too; their changes are told from the look after the next on."""
        self.relevance |= relevance
        self._watch.include(relevance)

    async def look(self) -> Look:
        """What changed since the accepted look; nothing, if this is the first.

        Raises:
            OSError: a folder of the workspace cannot be looked at.
        """
        after = await self._watch.snapshot()
        before = self._accepted
        if before is None:
            return Look(Changes(is_cut=after.is_cut), after)
        if len(after.files) + len(before.files) <= FEW_FILES:  # quicker than to switch to a thread
            return Look(self._difference(before, after), after)
        return Look(await asyncio.to_thread(self._difference, before, after), after)

    def accept(self, look: Look) -> None:
        """The server knows of these changes now."""
        self._accepted = look.snapshot

    def _difference(self, before: Snapshot, after: Snapshot) -> Changes:
        return difference(before, after, self.relevance, lambda path: not os.path.lexists(path))
