"""Finds the places where a symbol is declared itself, which its uses do not count.

Servers are always asked for uses with declarations: without these, some leave out imports and assignments.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import LanguageServer, RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.tools.symbols.declarations import tells_apart
from lm_tools_bridge.code_intelligence.tools.symbols.places import Location, locations_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import Symbol
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.positions import order_of, to_server

_DEFINITION: Final = "textDocument/definition"
_DECLARATION: Final = "textDocument/declaration"
_PYTHON: Final = frozenset({".py", ".pyi"})
_DECLARING: Final = re.compile(r"\s*(?:async\s+)?(?:def|class)\s")
PlaceKey = tuple[Path, int, int]
"""A file, and the line and character where a name begins, as its server counts them."""


async def own_places(target: Target, server: LanguageServer, texts: Texts) -> frozenset[PlaceKey]:
    """The places that declare or define the target, under all names of their files.

    Raises:
        ServerGone: the server ended.
    """
    own = None if target.symbol is None else _known_place(target.symbol, server)
    alike = [place for other in target.others if (place := _known_place(other, server)) is not None]
    methods = (_DEFINITION, _DECLARATION) if tells_apart(target.path) else (_DEFINITION,)
    answers = [location for method in methods for location in await _locations(target, server, method)]
    places = [place for place in map(_key, answers) if place is not None]
    if target.path.suffix in _PYTHON:
        # an attribute is defined by each of its assignments, which are uses as well
        by_word = await asyncio.to_thread(_declared_by_word, places, texts)
        places = by_word if own is not None or by_word else places[:1]
    declared = [*alike, *places] if own is None else [own, *alike, *places]
    aliased = [(alias, *place[1:]) for place in declared for alias in server.aliases(place[0])]
    return frozenset([*declared, *aliased])


def without(locations: Sequence[Location], own: frozenset[PlaceKey]) -> list[Location]:
    """The locations that begin at none of these places."""
    return [location for location in locations if _key(location) not in own]


def with_own(
    workplace: Workplace,
    locations: Sequence[Location],
    own: frozenset[PlaceKey],
    target: Target,
    texts: Texts,
) -> list[Location]:
    """The locations with these places, if they are in the project and have the name. Blocks.

    Servers leave out declarations of the same thing (an interface beside its namespace), and where JavaScript
    assigns what it declares.
    """
    known_places = {_key(location) for location in locations}
    more = [
        Location(path, {"start": start, "end": {**start, "character": character + len(target.name)}})
        for path, line, character in own - known_places
        if workplace.workspace.contains(path)
        and (start := {"line": line, "character": character})
        and _has_name(texts.lines(path), line, target.name)
    ]
    return sorted([*locations, *more], key=lambda each: (each.path.as_posix(), order_of(each.where) or ()))


def _has_name(lines: Sequence[str] | None, line: int, name: str) -> bool:
    return bool(name) and lines is not None and line < len(lines) and name in lines[line]


def _known_place(symbol: Symbol, server: LanguageServer) -> PlaceKey | None:
    if symbol.place.lines is None:
        return None
    position = to_server(symbol.place.span.start, symbol.place.lines, server.encoding)
    if not isinstance(position, dict):
        return None
    return symbol.place.path, position["line"], position["character"]


async def _locations(target: Target, server: LanguageServer, method: str) -> list[Location]:
    """What the server answers; nothing if it does not, as this only takes away from an answer."""
    if not server.supports(method):
        return []
    try:
        return locations_of(await server.request(method, target.params))
    except (RequestFailed, RequestTimedOut):
        return []


def _declared_by_word(places: Sequence[PlaceKey], texts: Texts) -> list[PlaceKey]:
    """Those in lines that begin as declarations of functions or classes. Blocks."""
    lines = ((place, texts.lines(place[0]) or ()) for place in places)
    return [
        place
        for place, text in lines
        if place[1] < len(text) and _DECLARING.match(text[place[1]]) is not None
    ]


def _key(location: Location) -> PlaceKey | None:
    order = order_of(location.where)
    return None if order is None else (location.path, order[0], order[1])
