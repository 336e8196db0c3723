"""Places in files as results show them, with a few lines around; reads them from the answers of servers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.texts import Texts, cut
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire import positions
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path, to_uri
from lm_tools_bridge.code_intelligence.wire.positions import Span, order_of, span_from_server

AROUND: Final = 1
"""Lines shown before and after a place."""


class Place(msgspec.Struct, frozen=True):
    """A range in a file; `lines` are those of the file, None if it could not be read."""

    path: Path
    span: Span
    lines: Sequence[str] | None

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: by path and position."""
        return (self.path.as_posix(), *positions.order(self.span))

    def structured(self, workplace: Workplace, around: int = AROUND) -> dict[str, Any]:
        """As in `structuredContent`; the preview begins at `previewStartLine`."""
        first, lines = self._around(around)
        absolute, in_workspace = workplace.names(self.path)
        return {
            "absolutePath": absolute,
            "workspacePath": in_workspace,
            **positions.members(self.span),
            "preview": "\n".join(lines),
            "previewStartLine": first,
        }

    def text(self, workplace: Workplace) -> str:
        """As in texts: `Folder/path#line`."""
        return f"{workplace.shown_path(self.path)}#{self.span.start.line}"

    def preview(self, around: int = AROUND) -> list[str]:
        """The lines around, each with its number."""
        first, lines = self._around(around)
        width = len(str(first + len(lines)))
        return [f"{number:>{width}}| {line}" for number, line in enumerate(lines, first)]

    def first_line(self) -> str:
        """The line it begins in, trimmed."""
        line = self.span.start.line
        return cut(self.lines[line - 1].strip()) if self.lines and line <= len(self.lines) else ""

    def _around(self, around: int) -> tuple[int, list[str]]:
        line = self.span.start.line
        first = max(1, line - around)
        return first, [cut(each) for each in (self.lines or ())[first - 1 : line + around]]


def place_of(uri: Any, where: Any, texts: Texts, encoding: PositionEncoding) -> Place | None:
    """The place of an LSP location; None if it is none. Blocks."""
    path = to_path(uri, Path)
    if path is None:
        return None
    lines = texts.lines(path)
    span = span_from_server(where, lines, encoding)
    return None if span is None else Place(path, span, lines)


def places_of(result: Any, texts: Texts, encoding: PositionEncoding) -> list[Place]:
    """The places in a list of `Location` or `LocationLink`, in order, each once. Blocks."""
    places = [place_of(*_location(location), texts, encoding) for location in list_of(result)]
    by_order = {place.order: place for place in places if place is not None}
    return sorted(by_order.values(), key=lambda place: place.order)


class Location(msgspec.Struct, frozen=True):
    """A range in a file as its server counts it; the file has not been read."""

    path: Path
    where: Any


def locations_of(result: Any) -> list[Location]:
    """As `places_of`, without reading the files."""
    by_order: dict[tuple[Any, ...], Location] = {}
    paths: dict[Any, tuple[Path, str] | None] = {}  # many places lie in one file
    for raw in list_of(result):
        uri, where = _location(raw)
        if not isinstance(uri, str):
            continue
        if uri not in paths:
            path = to_path(uri, Path)
            paths[uri] = None if path is None else (path, path.as_posix())
        names, order = paths[uri], order_of(where)
        if names is not None and order is not None:
            by_order[names[1], *order] = Location(names[0], where)
    return [by_order[order] for order in sorted(by_order)]


def really_at(locations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The locations with the real paths of their files, so that one under two names is there once. Blocks."""
    real: dict[Any, Any] = {}
    moved = []
    for location in locations:
        member = "targetUri" if "targetUri" in location else "uri"
        uri = location.get(member)
        if isinstance(uri, str) and uri not in real:
            path = to_path(uri, Path)
            real[uri] = uri if path is None else to_uri(Path(os.path.realpath(path)))
        moved.append({**location, member: real.get(uri, uri)} if isinstance(uri, str) else location)
    return moved


def place_at(location: Location, texts: Texts, encoding: PositionEncoding) -> Place:
    """The place of a location. Blocks."""
    lines = texts.lines(location.path)
    span = span_from_server(location.where, lines, encoding)
    assert span is not None  # noqa: S101  `locations_of` has read it
    return Place(location.path, span, lines)


def _location(location: Mapping[str, Any]) -> tuple[Any, Any]:
    if "targetUri" in location:
        return location["targetUri"], location.get("targetSelectionRange", location.get("targetRange"))
    return location.get("uri"), location.get("range")
