"""Joins the pages of a list, and cuts the list at limits of pages, entries and bytes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc

# A server may page without end, and its whole list is held in memory and sent to each client.
MAX_PAGES: Final = 50
MAX_ENTRIES: Final = 2_000
MAX_BYTES: Final = 4 * 1024 * 1024

_entries: Final = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(slots=True)
class Pages:
    """The entries of all pages so far, each as JSON text; `truncated` says why there are no more of them.

    `member` is the name of the list in a page: `tools`, `prompts` …
    """

    member: str
    entries: list[msgspec.Raw] = field(default_factory=list)
    truncated: str | None = None
    _bytes: int = 0
    _cursors: list[str] = field(default_factory=list)

    def take(self, page: msgspec.Raw) -> str | None:
        """Add a page. Returns the cursor of the next, None when there is none or no more are wanted.

        Raises:
            ValueError: the page has no such list.
        """
        members = jsonrpc.members_of(page)
        listed = members.get(self.member, b"")
        try:
            # what some languages write for a list without entries
            entries = [] if bytes(memoryview(listed)) == b"null" else _entries.decode(listed)
        except (msgspec.DecodeError, RecursionError):
            raise ValueError(f"the answer has no list of {self.member}") from None
        for entry in entries:
            size = len(jsonrpc.bytes_of(entry))
            if len(self.entries) == MAX_ENTRIES:
                self.truncated = f"more than {MAX_ENTRIES:,} {self.member}"
            elif self._bytes + size > MAX_BYTES:
                self.truncated = f"more than {MAX_BYTES // 2**20} MiB of {self.member}"
            if self.truncated is not None:
                return None
            self._bytes += size
            self.entries.append(entry)
        return self._next(jsonrpc.text_of(members.get("nextCursor", b"null")))

    def _next(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        if cursor in self._cursors:
            self.truncated = "a page that came before comes again"
        elif len(self._cursors) + 1 == MAX_PAGES:
            self.truncated = f"more than {MAX_PAGES} pages"
        else:
            self._cursors.append(cursor)
            return cursor
        return None
