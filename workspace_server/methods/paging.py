"""Pages of a sorted list, with stateless cursors. Pure.

A cursor contains the name of the last entry on the page before, so that entries which are added or removed in
between never cause another one to be repeated or left out.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from workspace_server.naming import sort_key

Order = Callable[[str], tuple[Any, ...]]

Entry = TypeVar("Entry")
PAGE_SIZE: Final = 1000


def encode(kind: str, name: str) -> str:
    """The cursor that continues the list `kind` after the entry `name`."""
    return base64.urlsafe_b64encode(f"{kind}\n{name}".encode()).decode("ascii").rstrip("=")


def decode(kind: str, cursor: str) -> str | None:
    """The name in a cursor of this list; None if the cursor is invalid."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        owner, newline, name = raw.decode().partition("\n")
    except (binascii.Error, ValueError):
        return None
    return name if newline and owner == kind and encode(kind, name) == cursor else None


def page(
    kind: str,
    entries: Sequence[Entry],
    name_of: Callable[[Entry], str],
    cursor: Any,
    size: int = PAGE_SIZE,
    *,
    order: Order = sort_key,
) -> tuple[Sequence[Entry], str | None] | None:
    """One page of a list.

    Args:
        kind: names the list; cursors of other lists are invalid.
        entries: the whole list, ordered by `order` of the names.
        name_of: an entry's name.
        cursor: the request's cursor, None for the first page.
        size: the most entries on one page.
        order: the sort key.

    Returns:
        The entries and the next cursor; None if the cursor is invalid.
    """
    start = 0
    if cursor is not None:
        after = decode(kind, cursor) if isinstance(cursor, str) else None
        if after is None:
            return None
        start = bisect_right(entries, order(after), key=lambda entry: order(name_of(entry)))
    page_entries = entries[start : start + size]
    more = start + size < len(entries)
    return page_entries, encode(kind, name_of(page_entries[-1])) if more else None
