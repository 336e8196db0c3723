"""Holds the tools of one server to its pins, which are kept in the state folder, in `definitions/`.

A pin belongs to an entry, and to the bytes that the user trusted with it: whoever trusts changed bytes of a
server expects that its tools changed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.pinned_definitions.pins import Definition, Mode, Pins, item_of, settle
from lm_tools_bridge.protocol.issues import Issue
from workspace_server.sources.feature_part import Trust
from workspace_server.sources.inactive import pending_issue
from workspace_server.sources.mcp.lists.list_cache import MAX_BYTES, ListCache

FOLDER: Final = "definitions"
_MAX_ROOTS: Final = 50
"""Projects in which one held change is shown: more than any repository has worktrees."""
_UNREADABLE: Final[Definition] = {}


class PinnedGuard:
    """Settles the lists of one server. All methods but `decided` block, and are for a thread.

    Args:
        source: the id of the source.
        root: the project's folder.
        digest: what the user trusted of the entry; empty for an entry of the user's own.
        mode: what is done with suspicious changes, as it is set now.
        trusts: what the user trusts.
    """

    def __init__(self, source: str, root: str, digest: str, mode: Callable[[], Mode], trusts: Trust) -> None:
        self._source = source
        self._root = root
        self._digest = digest
        self._mode = mode
        self._trusts = trusts
        self._files: ListCache | None = None
        self._key = ""
        self._settle_again: Callable[[], None] | None = None

    def bind(self, cache: ListCache, key: str, settle_again: Callable[[], None]) -> None:
        """As `DefinitionGuard.bind`. The pins lie beside the cache, under the same key."""
        self._files = cache.beside(FOLDER)
        self._key = f"{key}-{self._digest[:32]}" if self._digest else key
        self._settle_again = settle_again

    def decided(self) -> None:
        """Take note that the user decided something, or changed the settings."""
        if self._settle_again is not None:
            self._settle_again()

    def settle(
        self, entries: Sequence[msgspec.Raw], version: str
    ) -> tuple[Sequence[msgspec.Raw], Sequence[Issue]]:
        """As `DefinitionGuard.settle`."""
        mode, files = self._mode(), self._files
        if mode == "take" or files is None:
            return entries, ()
        pins = _decoded(files.load(self._key))
        definitions = [_definition(entry) for entry in entries]
        is_accepted = pins is not None and self._is_accepted(pins)
        outcome = settle(pins, self._source, definitions, version, mode, is_accepted=is_accepted)
        self._save(files, pins, self._with_root(outcome.pins))
        settled = [
            entry if now is definition else msgspec.Raw(msgspec.json.encode(now))
            for entry, definition, now in zip(entries, definitions, outcome.in_force, strict=True)
            if now is not None
        ]
        return settled, () if self._is_settled(outcome.pins) else (self._issue(),)

    def _is_accepted(self, pins: Pins) -> bool:
        item = item_of(pins)
        return item is not None and self._trusts({item.key: item.digest()})[item.key] == "trusted"

    def _is_settled(self, pins: Pins) -> bool:
        return not pins.held or self._is_accepted(pins)

    def _issue(self) -> Issue:
        """What status, doctor and notifications show. It names the server only, as the text is held back."""
        return pending_issue(f"The tools of {self._source} say something else", "changed", self._root)

    def _with_root(self, pins: Pins) -> Pins:
        if not pins.held or self._root in pins.roots:
            return pins
        return msgspec.structs.replace(pins, roots=(*pins.roots, self._root)[-_MAX_ROOTS:])

    def _save(self, files: ListCache, before: Pins | None, pins: Pins) -> None:
        if pins == before:
            files.touch(self._key)  # the oldest are deleted
            return
        content = msgspec.json.encode(pins)
        if len(content) <= MAX_BYTES:  # a larger file would not be read, and so would pin nothing
            files.save(self._key, content)


def held_pins(state_dir: Path, root: Path) -> Iterator[Pins]:
    """The pins of the servers of a project that said something else, by the ids of their sources."""
    folder, pins_by_source = state_dir / FOLDER, dict[str, Pins]()
    files = ListCache(folder)
    with suppress(OSError):
        for file in sorted(folder.glob("*.json")):
            pins = _decoded(files.load(file.stem))
            if pins is not None and pins.held and str(root) in pins.roots:
                pins_by_source[pins.source] = pins
    for source in sorted(pins_by_source):
        yield pins_by_source[source]


def _decoded(content: bytes | None) -> Pins | None:
    try:
        return None if content is None else msgspec.json.decode(content, type=Pins)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _definition(entry: msgspec.Raw) -> Definition:
    try:
        value = msgspec.json.decode(entry)
    except (msgspec.DecodeError, RecursionError):  # left out of the list later
        return dict(_UNREADABLE)
    return value if isinstance(value, dict) else {}
