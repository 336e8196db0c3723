"""The tool `lm_symbolInfo`: all about one symbol in one answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServer, RequestFailed
from lm_tools_bridge.code_intelligence.tools import asking
from lm_tools_bridge.code_intelligence.tools.asking import Part, Waiting
from lm_tools_bridge.code_intelligence.tools.symbols.declarations import role_of, tells_apart
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, locations_of, places_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import OUTLINE, Symbol, outline
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, freshness_members
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD, Texts, cut
from lm_tools_bridge.code_intelligence.tools.word_check.absence import find_known_target
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from workspace_server.call_context import CallContext
from workspace_server.results import clean_text, well_formed
from workspace_server.tool import ToolResult

DEFAULT_LINES: Final = 40
"""Nine of ten functions are shorter (aiohttp, click, rich: 92 of 100), and it costs about 500 tokens."""
MAX_LINES: Final = 400
"""Of source: who wants more reads the file."""
MAX_HOVER: Final = 8000
"""Characters: hover texts can hold the documentation of a whole module."""
_HOVER: Final = "textDocument/hover"
_PLACES: Final[Mapping[str, str]] = {
    "definition": "textDocument/definition",
    "declaration": "textDocument/declaration",
    "typeDefinition": "textDocument/typeDefinition",
}


_BOTH: Final = ("definition", "declaration")
_VALUE: Final = re.compile(r"#* ?(?:variable|field|param|parameter|property|static-property|constant)\b")
"""The kind of a symbol, or the beginning of what clangd says of it."""


@dataclass(frozen=True, slots=True)
class _Info:
    hover: str
    places: Mapping[str, Sequence[Place]]
    symbol: Symbol | None


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Describe the symbol.

    Raises:
        InvalidArguments: the symbol is not named, or not uniquely.
        ToolError: there is no such symbol, or no server.
    """
    waiting, texts = Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_known_target(workplace, arguments, OUTLINE, waiting, texts)

    async def work(server: LanguageServer) -> _Info:
        return await _ask(workplace, server, target, texts)

    part = await asking.ask(target.server, work, waiting, settles=False)
    return _result(workplace, arguments, target, part)


async def _ask(workplace: Workplace, server: LanguageServer, target: Target, texts: Texts) -> _Info:
    methods = (_HOVER, *_PLACES.values())
    hover, *results = await asyncio.gather(*(_optional(server, method, target.params) for method in methods))

    def read_places() -> dict[str, list[Place]]:
        lists = (places_of(result, texts, server.encoding) for result in results)
        return dict(zip(_PLACES, lists, strict=True))

    paths = [location.path for result in results for location in locations_of(result)]
    places = await workplace.run(paths, read_places)
    symbol, words = target.symbol, _plain(hover)
    places |= _told_apart(places, symbol, words)
    home = next(iter((*places["definition"], *places["declaration"])), None)
    if symbol is None and home is not None:
        symbol = await declared_at(server, home, texts)
    about = [target.path, *(place.path for group in places.values() for place in group)]
    is_shown = await workplace.run(about, lambda: texts.may_say(words, about))
    return _Info(words if is_shown else WITHHELD, places, symbol)


def _told_apart(
    places: Mapping[str, Sequence[Place]], symbol: Symbol | None, hover: str
) -> dict[str, list[Place]]:
    """Definitions and declarations by what stands there, where a server cannot be believed."""
    labelled = {place.order: (label, place) for label in reversed(_BOTH) for place in places[label]}
    if symbol is not None and labelled and tells_apart(symbol.place.path):
        labelled.setdefault(
            symbol.place.order, ("declaration", symbol.place)
        )  # clangd names the other one only
    is_value = _VALUE.match(symbol.kind if symbol is not None else hover) is not None
    by_role: dict[str, list[Place]] = {label: [] for label in _BOTH}
    for label, place in labelled.values():
        role = role_of(place.path, place.lines, place.span.start, is_value=is_value)
        by_role[role or label].append(place)
    # a definition that nothing declares is its own declaration, as servers say it
    return by_role if by_role["declaration"] else {**by_role, "declaration": list(places["declaration"])}


async def _optional(server: LanguageServer, method: str, params: Any) -> Any:
    """The result of a request that the answer can do without."""
    if not server.supports(method):
        return None
    try:
        return await server.request(method, params)
    except RequestFailed:
        return None


async def declared_at(server: LanguageServer, home: Place, texts: Texts) -> Symbol | None:
    """The symbol that is declared at a place."""
    if not server.supports(OUTLINE):
        return None
    try:
        symbols = await outline(server, home.path, texts)
    except (OSError, RequestFailed):
        return None
    fitting = (
        symbol for symbol in symbols if symbol.place.span.start <= home.span.start <= symbol.place.span.end
    )
    return next(fitting, None)


def _plain(hover: Any) -> str:
    """The text of a `Hover`, whichever of its forms a server uses."""
    contents = hover.get("contents") if isinstance(hover, Mapping) else None
    parts = contents if isinstance(contents, list) else [contents]
    texts = [part.get("value") if isinstance(part, Mapping) else part for part in parts]
    return clean_text("\n\n".join(text for text in texts if isinstance(text, str)).strip())[:MAX_HOVER]


def _result(
    workplace: Workplace, arguments: Mapping[str, Any], target: Target, part: Part[_Info]
) -> ToolResult:
    info = part.value or _Info("", {}, target.symbol)
    symbol = info.symbol
    source = _source(symbol, min(max(0, int(arguments.get("maxLines", DEFAULT_LINES))), MAX_LINES))
    lists = {
        label: [place.structured(workplace, around=0) for place in places]
        for label, places in info.places.items()
    }
    structured = {
        "symbol": None if symbol is None else symbol.structured(workplace, around=0),
        "hover": info.hover,
        **lists,
        "source": "\n".join(source),
        "sourceTruncated": symbol is not None and len(source) < _length(symbol),
        **freshness_members([part.freshness], target.unavailable),
    }
    lines = ["Symbol info summary"]
    if symbol is not None:
        lines += [f"symbol: {symbol.title()}", f"location: {symbol.place.text(workplace)}"]
    lines += [
        f"{label}: {place.text(workplace)}" for label, places in info.places.items() for place in places
    ]
    lines += asking.freshness_lines([part.freshness], target.unavailable)
    if info.hover:
        lines += ["---", info.hover]
    if source and symbol is not None:
        cut_off = " (truncated)" if structured["sourceTruncated"] else ""
        first = symbol.whole.start.line
        lines += ["---", f"source: {workplace.shown_path(symbol.place.path)}#{first}{cut_off}", *source]
    return ToolResult(well_formed("\n".join(lines)), structured)


def _source(symbol: Symbol | None, limit: int) -> list[str]:
    if symbol is None or symbol.place.lines is None:
        return []
    start = symbol.whole.start.line
    return [
        cut(line) for line in symbol.place.lines[start - 1 : min(symbol.whole.end.line, start - 1 + limit)]
    ]


def _length(symbol: Symbol) -> int:
    return symbol.whole.end.line - symbol.whole.start.line + 1
