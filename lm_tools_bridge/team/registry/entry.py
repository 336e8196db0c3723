"""Entries of the registry: what a host publishes about itself and its offers, and its readers. Pure."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from lm_tools_bridge.team.names import is_token
from lm_tools_bridge.text.printable import printable

MAX_ENTRY_BYTES: Final = 64 * 1024
"""`MAX_OFFERS` offers of 300 bytes each."""
MAX_OFFERS: Final = 200
"""A host offers its projects one by one. All members keep the offers of all hosts."""
_MAX_TEXT: Final = 200  # characters, from a stranger: a title is one line
Kind = Literal["workspace", "server"]
Policy = Literal["read-only", "all"]


class OfferEntry(msgspec.Struct, frozen=True, rename="camel"):
    """An offer as others see it.

    Attributes:
        name: what members call it.
        kind: a whole workspace, or one MCP server of it.
        policy: which of its tools can be called.
        title: a line for people.
        repository: where the workspace's repository comes from, without credentials; "" if it has none.
        revision: the commit that was checked out when the entry was made.
        digest: of the offered tools, so that hosts with the same tools can be recognised.
        tools: how many tools it has.
    """

    name: str
    kind: Kind
    policy: Policy = "read-only"
    title: str = ""
    repository: str = ""
    revision: str = ""
    digest: str = ""
    tools: int = 0


class HostEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A host of the team. `capacity` is how many calls it answers at once, `started` ms since 1970."""

    host: str
    version: str = ""
    zone: str = ""
    capacity: int = 1
    started: int = 0
    offers: tuple[OfferEntry, ...] = ()


class AliveEntry(msgspec.Struct, frozen=True, rename="camel"):
    """The heartbeat of a host. A host that drains takes no new calls."""

    in_flight: int = 0
    draining: bool = False


def encoded(entry: HostEntry | AliveEntry) -> bytes:
    """The entry as it is stored."""
    return msgspec.json.encode(entry)


def read_host(key: str, payload: bytes) -> HostEntry | str:
    """Read the entry of a host, which its members wrote: they may be hostile.

    Args:
        key: under which it is stored. The server's permissions decide who may write there.
        payload: its bytes.

    Returns:
        The entry with texts that are safe to show, or why it is ignored.
    """
    if len(payload) > MAX_ENTRY_BYTES:
        return f"it is larger than {MAX_ENTRY_BYTES} bytes"
    try:
        entry = msgspec.json.decode(payload, type=HostEntry)
    except (msgspec.DecodeError, RecursionError):
        return "it cannot be read"
    if not is_token(key) or entry.host != key:
        return "it names another host than its key"
    if len(entry.offers) > MAX_OFFERS:
        return f"it has more than {MAX_OFFERS} offers"
    if not all(is_token(offer.name) for offer in entry.offers):
        return "an offer has an invalid name"
    if len({offer.name for offer in entry.offers}) < len(entry.offers):
        return "two offers have the same name"
    if not 1 <= entry.capacity <= 100_000:
        return "its capacity is out of range"
    return msgspec.structs.replace(
        entry,
        version=_quoted_text(entry.version),
        zone=_quoted_text(entry.zone),
        offers=tuple(map(_safe, entry.offers)),
    )


def read_alive(payload: bytes) -> AliveEntry | None:
    """Read a heartbeat; None if it cannot be used."""
    try:
        entry = msgspec.json.decode(payload, type=AliveEntry)
    except (msgspec.DecodeError, RecursionError):
        return None
    return entry if entry.in_flight >= 0 else None


def _safe(offer: OfferEntry) -> OfferEntry:
    texts = offer.title + offer.repository + offer.revision + offer.digest
    if len(texts) <= _MAX_TEXT and texts.isascii() and texts.isprintable() and offer.tools >= 0:
        return offer  # as nearly all are: a large team has 100,000 of these texts
    return msgspec.structs.replace(
        offer,
        title=_quoted_text(offer.title),
        repository=_quoted_text(offer.repository),
        revision=_quoted_text(offer.revision),
        digest=_quoted_text(offer.digest),
        tools=max(0, offer.tools),
    )


def _quoted_text(text: str) -> str:
    return printable(text[:_MAX_TEXT]) if text else text
