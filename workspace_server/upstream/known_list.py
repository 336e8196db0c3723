"""The tools a foreign source is known to have: as it listed them last, here or in an earlier life (T-7).

Asking the server is `foreign.py`; what a single entry means is `definitions.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from protocol import jsonrpc
from protocol.issues import Issue
from workspace_server.source import Tool, Visibility
from workspace_server.upstream import definitions
from workspace_server.upstream.definitions import Definitions
from workspace_server.upstream.list_cache import ListCache
from workspace_server.upstream.paging import Pages


class KnownList:
    """The last list of one source.

    Attributes:
        tools: the tools, None as long as no list is known.
        issues: what was left out of the list, and what changed in it (T-11, T-16, T-19).
        is_recalled: whether the list of an earlier life was looked for.
    """

    def __init__(
        self,
        source: str,
        *,
        visibility: Visibility,
        visibilities: Mapping[str, Visibility],
        timeout_s: float,
        cache: ListCache | None,
        cache_key: str,
    ) -> None:
        self.tools: Sequence[Tool] | None = None
        self.issues: tuple[Issue, ...] = ()
        self._source = source
        self._options: dict[str, Any] = {
            "visibility": visibility, "visibilities": visibilities, "timeout_s": timeout_s,
        }  # fmt: skip
        self._cache = cache
        self._cache_key = cache_key
        self.is_recalled = cache is None
        self._saved: bytes | None = None
        self._taken_at: float | None = None
        self._definitions = Definitions()
        self._first_seen: dict[str, str] = {}

    def original(self, name: str) -> str:
        """The server's own name of a tool."""
        return self._definitions.originals.get(name, name)

    def age_s(self) -> float:
        """How long ago the server said this; infinite for a list of an earlier life."""
        return float("inf") if self._taken_at is None else time.monotonic() - self._taken_at

    async def recall(self) -> None:
        """Take the list of an earlier life, if there is one and the server has not been heard yet."""
        if self.is_recalled or self._cache is None:
            return
        saved = await asyncio.to_thread(self._cache.load, self._cache_key)
        if self.is_recalled:
            return  # somebody else was here meanwhile
        self.is_recalled = True
        pages = Pages("tools")
        try:
            pages.take(msgspec.Raw(saved or b""))
        except ValueError:
            return
        if self.tools is None:
            self._saved = saved
            self._use(pages)

    async def take(self, pages: Pages) -> None:
        """Replace the list by what the server says now, and keep it for a later life."""
        self._taken_at = time.monotonic()
        self._use(pages)
        content = b'{"tools":[' + b",".join(jsonrpc.bytes_of(entry) for entry in pages.entries) + b"]}"
        if self._cache is not None and content != self._saved:
            self._saved = content
            await asyncio.to_thread(self._cache.save, self._cache_key, content)

    def _use(self, pages: Pages) -> None:
        found = definitions.read(pages.entries, self._source, **self._options)
        for name, digest in found.hashes.items():
            self._first_seen.setdefault(name, digest)
        issues = [*found.issues, *definitions.changed(self._first_seen, found.hashes, self._source)]
        if pages.truncated is not None:
            text = f"The list of {self._source} is cut: {pages.truncated}"
            details = f"source {self._source}"
            issues.append(Issue("error", "tools/list", "TOOL_LIST_TRUNCATED", text, details=details))
        self._definitions = found
        self.tools = found.tools
        self.issues = tuple(issues)
