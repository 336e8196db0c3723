"""Keeps the `ui://` addresses of several servers apart (MCP Apps, SEP-1865). Pure.

Servers choose these addresses freely, so that two may have the same one, above all two copies of one server.
The first keeps it as written: what clients have remembered of its page, or a user has reviewed, stays right.
The others get it with their own name in the authority: in lists, in what tools say of their pages, and in
results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lm_tools_bridge.protocol import apps_extension as apps
from workspace_server.source import Source
from workspace_server.tool import Tool

_NOBODY: Final[Mapping[str, str]] = {}


class AppAddress(NamedTuple):
    """An address as its server wrote it, and the id of that server's source."""

    source: str
    written: str


class AppAddresses:
    """The `ui://` addresses of all sources.

    Args:
        addresses: those that each source has, as it wrote them; the sources are in configuration order.
        before: which source held which address until now, by address.

    Attributes:
        holders: the source that has an address as it is written, by address.
    """

    def __init__(
        self, addresses: Mapping[str, Iterable[str]] = {}, before: Mapping[str, str] = _NOBODY
    ) -> None:
        written = {source: set(own) for source, own in addresses.items()}
        self._names = {server_name(source): source for source in written}
        claims = [
            (address, source) for address, source in before.items() if address in written.get(source, ())
        ]
        claims += [(address, source) for source, own in written.items() for address in own]
        holders: dict[str, str] = {}
        for address, source in claims:
            if self._find_moved(address) is None:  # else it stands for a page of the server that it names
                holders.setdefault(address, source)
        self.holders = holders
        self._by_authority: dict[str, list[str]] = {}
        for source, own in written.items():
            for authority in set(map(apps.authority, own)):
                self._by_authority.setdefault(authority, []).append(source)
        self._moved = {
            source: frozenset(address for address in own if holders.get(address) != source)
            for source, own in written.items()
        }

    def __bool__(self) -> bool:
        return bool(self._names)

    def neighbours(self, address: str) -> Sequence[str]:
        """The sources that have an address with this one's authority, and so may have this one unlisted."""
        return self._by_authority.get(apps.authority(address), ())

    def client_address(self, source: Source, written: str) -> str:
        """The address under which clients get what a source has at this one."""
        is_moved = written in self._moved.get(source.id, ())
        return apps.moved(written, server_name(source.id)) if is_moved else written

    def find(self, address: str) -> AppAddress | None:
        """Whose address this is that a client knows; None if no source is known to have it."""
        if (original := self._find_moved(address)) is not None:
            return original
        holder = self.holders.get(address)
        return None if holder is None else AppAddress(holder, address)

    def shown_definition(self, source: Source, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """The definition of a tool with the address under which clients get its page."""
        ui = apps.tool_ui(definition) if self._moved.get(source.id) else None
        if ui is None or ui.page is None:
            return definition
        page = self.client_address(source, ui.page)
        return definition if page == ui.page else apps.with_page(definition, page)

    def _find_moved(self, address: str) -> AppAddress | None:
        """The address that a moved one stands for."""
        name, plus, _ = apps.authority(address).partition("+")
        source = self._names.get(name) if plus else None
        written = None if source is None else apps.unmoved(address, name)
        return None if source is None or written is None else AppAddress(source, written)


NO_ADDRESSES: Final = AppAddresses()


def server_name(source: str) -> str:
    """The name of a source in moved addresses, from its id; no two servers have the same."""
    return source.partition(":")[2] or source


def app_addresses(
    tools_by_source: Sequence[tuple[Source, Sequence[Tool]]], before: AppAddresses
) -> AppAddresses:
    """The addresses of these sources, with the tools that each has; `before` is what held until now."""
    written = {source.id: set(_written(source, tools)) for source, tools in tools_by_source}
    written = {source: own for source, own in written.items() if own}
    return AppAddresses(written, before.holders) if written else NO_ADDRESSES


def _written(source: Source, tools: Sequence[Tool]) -> Iterable[str]:
    """The addresses that a source lists, and those of pages: a server need not list them."""
    offered = source.offerings()
    for entry in (*offered.resources, *offered.templates):
        if entry.name.startswith(apps.SCHEME):
            yield entry.name
    for tool in tools:
        ui = apps.tool_ui(tool.definition) if "_meta" in tool.definition else None
        if ui is not None and ui.page is not None and ui.page.startswith(apps.SCHEME):
            yield ui.page
