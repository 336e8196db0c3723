"""Keeps the diagnostics that one server published, and lets callers wait for those of a version."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from workspace_server.results import clean_text

MAX_DIAGNOSTICS: Final = 50_000
"""Of all files together: what a server publishes unasked must not fill the memory."""
MAX_FILES: Final = 20_000
"""Files with publications, for the same reason."""
MAX_STATUSES: Final = 1000
"""Files whose status is remembered; a status is of use only while its file is being checked."""
IDLE: Final = "idle"
"""The status of a file that clangd has read and checked."""
_LONGEST_STATUS: Final = 100
"""Characters: a server's own words for a state are short; one in error must not fill the status."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What a server published for a file last.

    Attributes:
        version: which version of the open document it is about; None if it does not say.
        diagnostics: LSP `Diagnostic` objects.
        number: of this publication; later ones have greater numbers.
        received_at: when, by the event loop's clock.
    """

    version: int | None
    diagnostics: Sequence[Mapping[str, Any]]
    number: int
    received_at: float


class Publications:
    """The last publication for each file. Beyond `MAX_DIAGNOSTICS` the oldest are forgotten."""

    def __init__(self, limit: int = MAX_DIAGNOSTICS) -> None:
        self._limit = limit
        self._by_path: OrderedDict[Path, Publication] = OrderedDict()
        self._total = 0
        self._status: OrderedDict[Path, str] = OrderedDict()
        self._waiting: dict[Path, set[asyncio.Event]] = {}
        self.last_number = 0
        self.has_forgotten = False
        """Whether some were forgotten because there were too many."""

    def published(self, params: Any, now: float) -> None:
        """Take the parameters of `textDocument/publishDiagnostics`, whatever they are."""
        if not isinstance(params, Mapping):
            return
        path = to_path(params.get("uri"), Path)
        items = params.get("diagnostics")
        if path is None or not isinstance(items, list):
            return
        version = params.get("version")
        valid = version if isinstance(version, int) and not isinstance(version, bool) else None
        diagnostics = tuple(item for item in items if isinstance(item, Mapping))
        if len(diagnostics) > self._limit:
            diagnostics, self.has_forgotten = diagnostics[: self._limit], True
        self.last_number += 1
        self.forget(path)
        self._by_path[path] = Publication(valid, diagnostics, self.last_number, now)
        self._total += len(diagnostics)
        while self._total > self._limit or len(self._by_path) > MAX_FILES:
            self.forget(next(iter(self._by_path)))
            self.has_forgotten = True
        self._wake(path)

    def status_reported(self, params: Any) -> None:
        """Take the parameters of clangd's `textDocument/clangd.fileStatus`."""
        path = to_path(params.get("uri"), Path) if isinstance(params, Mapping) else None
        if path is not None:
            self._status.pop(path, None)
            self._status[path] = clean_text(str(params.get("state"))[:_LONGEST_STATUS])
            if len(self._status) > MAX_STATUSES:
                self._status.popitem(last=False)
            self._wake(path)

    def status(self, path: Path) -> str | None:
        """What clangd does with the file, e.g. `parsing includes`; None if it did not say."""
        return self._status.get(path)

    def is_busy(self, paths: Iterable[Path]) -> bool:
        """Whether clangd says that it still works on one of these files."""
        return any(not self._status.get(path, IDLE).startswith(IDLE) for path in paths)

    def get(self, path: Path) -> Publication | None:
        """The last publication for this file."""
        return self._by_path.get(path)

    def paths(self) -> list[Path]:
        """The files with a publication."""
        return list(self._by_path)

    def forget(self, path: Path) -> None:
        """The file is gone, or its publication is no longer about anything."""
        old = self._by_path.pop(path, None)
        if old is not None:
            self._total -= len(old.diagnostics)

    def _wake(self, path: Path) -> None:
        for event in self._waiting.get(path, ()):
            event.set()

    async def wait(
        self, path: Path, is_wanted: Callable[[Publication], bool], timeout_s: float
    ) -> Publication | None:
        """The last publication for the file, once it is wanted; None if it is not in time.

        Whether it is wanted is asked again after each publication and status of the file.
        """
        changed = asyncio.Event()
        self._waiting.setdefault(path, set()).add(changed)
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                while True:
                    publication = self._by_path.get(path)
                    if publication is not None and is_wanted(publication):
                        return publication
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return None
        finally:
            events = self._waiting[path]
            events.discard(changed)
            if not events:
                del self._waiting[path]
