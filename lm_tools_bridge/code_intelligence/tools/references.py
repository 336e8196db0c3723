"""The tools `lm_references` and `lm_implementations`: where a symbol is used, or implemented.

Without `tsconfig.json` or `jsconfig.json`, TypeScript's servers know the files that are open, and what these
import. So the files with the symbol's name are opened, and the server is asked again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import asking, listing
from lm_tools_bridge.code_intelligence.tools.asking import Part, Request, Waiting, Work
from lm_tools_bridge.code_intelligence.tools.listing import Entry, Listing
from lm_tools_bridge.code_intelligence.tools.project_files import where, without_libraries
from lm_tools_bridge.code_intelligence.tools.symbols.own_places import PlaceKey, own_places, without
from lm_tools_bridge.code_intelligence.tools.symbols.places import (
    Location,
    locations_of,
    place_at,
    really_at,
)
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, find_target
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from workspace_server.call_context import CallContext
from workspace_server.sources.builtin.search.engine import find_text
from workspace_server.sources.builtin.search.query import EngineUnavailable, TextQuery
from workspace_server.tool import ToolResult

MAX_GIVEN: Final = 150
"""So many files are opened: fewer than may be open at a time."""
_MAX_LINES: Final = 5000
"""Lines with the name: enough to name more files than may be opened."""

T = TypeVar("T")


async def ask(workplace: Workplace, target: Target, work: Work[T], waiting: Waiting) -> Part[T]:
    """As `asking.ask`, of the target's server, once it knows the files with the target's name."""
    part = await asking.ask(target.server, work, waiting)
    kind = target.server.specification
    if not kind.joins_open_files or part.freshness.reason != kind.without_project_files or not target.name:
        return part
    await _give_files_with(workplace, target.server, target.name)
    return await asking.ask(target.server, work, waiting)


async def _give_files_with(workplace: Workplace, server: LanguageServer, name: str) -> None:
    query = TextQuery(re.escape(name), regex=True, case_sensitive=True)
    try:
        matches = await find_text(
            workplace.workspace,
            query,
            where(server.specification),
            _MAX_LINES,
            workplace.searches.settings(),
        )
    except EngineUnavailable:
        return
    paths = dict.fromkeys(match.path for match in matches.items)
    own = await asyncio.to_thread(without_libraries, workplace.workspace, paths)
    for path in own[:MAX_GIVEN]:
        with suppress(OSError):
            await server.open(path)


DEFAULT_LIMIT: Final = 100
"""With five lines each; `total` counts all uses, whatever the page has."""
MANY: Final = 200
"""More places are sorted in a thread."""
_METHODS: Final[Mapping[str, tuple[str, str, str]]] = {
    "lm_references": ("textDocument/references", "references", "References summary"),
    "lm_implementations": ("textDocument/implementation", "implementations", "Implementations summary"),
}


async def call(
    name: str, workplace: Workplace, arguments: Mapping[str, Any], context: CallContext
) -> ToolResult:
    """Find the places.

    Raises:
        InvalidArguments: the symbol is not named, or not uniquely.
        ToolError: there is no such symbol, or no server that can do this.
    """
    method = _METHODS[name][0]
    waiting, texts = Waiting(wait_s(arguments), context), await workplace.texts()
    target = await find_target(workplace, arguments, method, waiting, texts)
    params = target.params
    is_about_uses = name == "lm_references"
    if is_about_uses:
        params["context"] = {"includeDeclaration": True}
    leaves_out_own = is_about_uses and not arguments.get("includeDeclaration", False)

    async def work(server: LanguageServer) -> tuple[Any, frozenset[PlaceKey]]:
        result = await ask_by_all_names(server, server.request, target.path, method, params)
        own = await own_places(target, server, texts) if leaves_out_own else frozenset()
        return result, own

    part = await ask(workplace, target, work, waiting)
    result, own = part.value or (None, frozenset())
    locations = without(await own_locations(workplace, result), own)
    page = locations[listing.page(arguments, DEFAULT_LIMIT)]
    return await workplace.run(
        [location.path for location in page],
        lambda: _result(name, workplace, arguments, target, part, locations, texts),
    )


async def ask_by_all_names(
    server: LanguageServer, request: Request, path: Path, method: str, params: Mapping[str, Any]
) -> Any:
    """The locations that a server names for a position, also under the other names of its file.

    Args:
        server: knows the other names.
        request: asks it.
        path: the file.
        method: e.g. `textDocument/references`.
        params: those of the method, with the file under its own name.
    """
    result = await request(method, params)
    for alias in server.aliases(path):
        await server.open(alias)
        by_alias = {**params, "textDocument": {"uri": to_uri(alias)}}
        more = asking.list_of(await request(method, by_alias))
        result = [*asking.list_of(result), *await asyncio.to_thread(really_at, more)]
    return result


async def own_locations(workplace: Workplace, result: Any) -> list[Location]:
    """The locations in a result, in order, without those in git worktrees inside the project."""
    if len(asking.list_of(result)) > MANY:
        locations = await asyncio.to_thread(locations_of, result)
    else:
        locations = locations_of(result)
    own = await workplace.own(location.path for location in locations)
    return [location for location in locations if location.path in own]


def _result(  # noqa: PLR0917  the facts about one call
    name: str,
    workplace: Workplace,
    arguments: Mapping[str, Any],
    target: Target,
    part: Part[Any],
    locations: Sequence[Location],
    texts: Texts,
) -> ToolResult:
    _, member, title = _METHODS[name]
    # only the files of the page are read
    page = [
        place_at(location, texts, target.server.encoding)
        for location in locations[listing.page(arguments, DEFAULT_LIMIT)]
    ]
    entries = [
        Entry(place.structured(workplace), (place.text(workplace), *place.preview())) for place in page
    ]
    about, head = target_members(target, workplace)
    files = len({location.path for location in locations})
    about["files"] = files
    places = Listing(
        title,
        member,
        entries,
        [part.freshness],
        target.unavailable,
        about,
        [*head, f"files: {files}"],
        total=len(locations),
    )
    return listing.result(places, arguments, DEFAULT_LIMIT)


def target_members(target: Target, workplace: Workplace) -> tuple[dict[str, Any], list[str]]:
    """What a result says of the symbol it is about: members, and lines of the text."""
    if target.symbol is None:
        return {}, []
    symbol = target.symbol
    return (
        {"symbol": symbol.structured(workplace, around=0)},
        [f"symbol: {symbol.title()} at {symbol.place.text(workplace)}"],
    )
