"""The tools `lm_references` and `lm_implementations`: where a symbol is used, or implemented."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import LanguageServer
from lm_tools_bridge.code_intelligence.tools import asking, listing
from lm_tools_bridge.code_intelligence.tools.asking import NoAnswer, Part, Request, Waiting, Work
from lm_tools_bridge.code_intelligence.tools.known_files import give_files_with, give_guessed_files
from lm_tools_bridge.code_intelligence.tools.symbols.own_places import PlaceKey, own_places, with_own, without
from lm_tools_bridge.code_intelligence.tools.symbols.places import (
    Location,
    locations_of,
    place_at,
    really_at,
)
from lm_tools_bridge.code_intelligence.tools.symbols.stubs import with_other_declaration
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target, UnknownSymbol, positions_of
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.use_pages import Uses, possible_uses, use_page
from lm_tools_bridge.code_intelligence.tools.word_check.absence import find_known_target
from lm_tools_bridge.code_intelligence.tools.word_check.checking import (
    AnswerCheck,
    CheckedAnswer,
    words_lines,
    words_members,
)
from lm_tools_bridge.code_intelligence.tools.word_check.unanswered import (
    UnansweredWords,
    find_unanswered_words,
)
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, wait_s
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path, to_uri
from workspace_server.call_context import CallContext
from workspace_server.tool import ToolResult

T = TypeVar("T")


async def ask(workplace: Workplace, target: Target, work: Work[T], waiting: Waiting) -> Part[T]:
    """As `asking.ask`, of the target's server, once it knows the files with the target's name."""
    kind = target.server.specification
    if not target.name or not (kind.joins_open_files or kind.project_files or kind.needs_named_files):
        return await asking.ask(target.server, work, waiting)
    lack = ""

    async def work_with_files(server: LanguageServer) -> T:
        nonlocal lack
        if kind.joins_open_files or kind.needs_named_files:
            lack = await give_files_with(workplace, server, target.name, target.path)
        else:
            lack = await give_guessed_files(workplace, server, target.name, waiting.seconds)
        return await work(server)

    part = await asking.ask(target.server, work_with_files, waiting)
    if lack and part.freshness.state == "fresh":
        return replace(part, freshness=Freshness(kind.name, "partial", lack))
    return part


DEFAULT_LIMIT: Final = 100
"""With a line or five each; `total` counts all uses, whatever the page has."""
DEFAULT_PLACES: Final = 1000
"""The same where a use is a line number only."""
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
    is_about_uses = name == "lm_references"
    try:
        target = await find_known_target(workplace, arguments, method, waiting, texts)
    except (NoAnswer, UnknownSymbol) as failure:
        words = await find_unanswered_words(workplace, arguments, failure.doubts, texts)
        if words is None or not is_about_uses:
            raise
        return await asyncio.to_thread(_words_result, workplace, arguments, words, texts)
    if is_about_uses:
        target = await with_other_declaration(workplace, target, texts)
    more: dict[str, Any] = {"context": {"includeDeclaration": True}} if is_about_uses else {}
    positions = [{**params, **more} for params in await positions_of(workplace, target)]
    has_own = bool(arguments.get("includeDeclaration", False))

    async def work(server: LanguageServer) -> tuple[Any, frozenset[PlaceKey]]:
        result = []
        for params in positions:
            path = to_path(params["textDocument"]["uri"], Path) or target.path
            result += asking.list_of(await ask_by_all_names(server, server.request, path, method, params))
        own = await own_places(target, server, texts) if is_about_uses else frozenset()
        return result, own

    async def ask_server() -> Part[Any]:
        return await ask(workplace, target, work, waiting)

    async def read_places(value: tuple[Any, frozenset[PlaceKey]] | None) -> Sequence[Location]:
        return await own_locations(workplace, (value or (None,))[0])

    if is_about_uses:
        answer = await AnswerCheck(workplace, target, waiting.seconds, texts).checked(ask_server, read_places)
    else:
        part = await ask_server()
        answer = CheckedAnswer(part, await read_places(part.value))
    if answer.part.value is not None and is_about_uses:
        own = answer.part.value[1]
        if has_own:
            locations = await asyncio.to_thread(with_own, workplace, answer.locations, own, target, texts)
        else:
            locations = without(answer.locations, own)
        answer = replace(answer, locations=locations)
    page = answer.locations[listing.page(arguments, _default_limit(arguments))]
    possible = () if answer.comparison is None else answer.comparison.missing
    return await workplace.run(
        [*(location.path for location in page), *(Path(file.path) for file in possible)],
        lambda: _result(name, workplace, arguments, target, answer, texts),
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
    answer: CheckedAnswer,
    texts: Texts,
) -> ToolResult:
    _, member, title = _METHODS[name]
    locations, comparison = answer.locations, answer.comparison
    # only the files of the page are read
    span = listing.page(arguments, _default_limit(arguments))
    about, head = target_members(target, workplace)
    files = len({location.path for location in locations})
    about["files"] = files
    head = [*head, f"files: {files}"]
    if comparison is not None:
        about["words"] = words_members(comparison, workplace)
        head += words_lines(comparison)
    uses = Uses(
        title,
        member,
        str(arguments.get("detail", "lines")),
        span,
        len(locations),
        [place_at(location, texts, target.server.encoding) for location in locations[span]],
        answer.part.freshness,
        target.unavailable,
        possible_uses(comparison),
        about,
        head,
    )
    return use_page(uses, workplace, texts)


def _words_result(
    workplace: Workplace, arguments: Mapping[str, Any], words: UnansweredWords, texts: Texts
) -> ToolResult:
    """A page of lines that may be uses, and no others."""
    span = listing.page(arguments, _default_limit(arguments))
    _, member, title = _METHODS["lm_references"]
    about = {"files": 0, "words": words_members(words.comparison, workplace)}
    possible = possible_uses(words.comparison)
    detail = str(arguments.get("detail", "lines"))
    uses = Uses(title, member, detail, span, 0, [], words.freshness, (), possible, about)
    return use_page(uses, workplace, texts)


def _default_limit(arguments: Mapping[str, Any]) -> int:
    return DEFAULT_PLACES if arguments.get("detail") == "places" else DEFAULT_LIMIT


def target_members(target: Target, workplace: Workplace) -> tuple[dict[str, Any], list[str]]:
    """What a result says of the symbol it is about: members, and lines of the text."""
    if target.symbol is None:
        return {}, []
    symbol = target.symbol
    return (
        {"symbol": symbol.structured(workplace, around=0)},
        [f"symbol: {symbol.title()} at {symbol.place.text(workplace)}"],
    )
