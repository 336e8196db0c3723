"""Asks a language server about words that its answer left out, within a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.project_files import without_libraries
from lm_tools_bridge.code_intelligence.tools.symbols.places import Location, locations_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import (
    BINDING,
    IMPORT,
    PLAIN_SCRIPTS,
    import_finder,
)
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.word_check.comparison import (
    Meaning,
    Places,
    Word,
    asking_order,
    left_out,
)
from lm_tools_bridge.code_intelligence.tools.word_check.project_words import (
    file_of,
)
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.code_intelligence.wire.positions import Position, order_of

MAX_ASKED: Final = 300
"""Words that a server is asked about; most servers answer so many within a second."""
MAX_ASKED_FILES: Final = 100
"""Files that are opened for it: half of what may be open at a time."""
ROUND: Final = 8
"""Words that are asked about at a time: more would only wait for each other in the server."""
WORTH_ALL_USES: Final = 6
"""Words still to ask about from which on all uses of another symbol are asked for, in place of each word."""
_HIGHLIGHT: Final = "textDocument/documentHighlight"
LEAST_S: Final = 0.5
"""Time for the questions about conditional code, which come last and take some milliseconds each."""
_DEFINITION: Final = "textDocument/definition"
_DECLARATION: Final = "textDocument/declaration"
_REFERENCES: Final = "textDocument/references"
_BUILT: Final = frozenset({"dist", "build", "out", "lib", "es", "esm", "cjs", "types", "target"})
"""Folders in which tools put declarations of what they built."""
SCRIPTS: Final = frozenset({".ts", ".mts", ".cts", ".tsx", ".js", ".mjs", ".cjs", ".jsx"})


@dataclass(slots=True)
class Questions:
    """What is asked of a server about the words that it left out.

    Attributes:
        homes: its places, those where the symbol is defined or declared, and that of the call.
        explained: the same, but for that of the call if the server does not know what is there.
        declared: the latter.
        meanings: what it said so far.
    """

    workplace: Workplace
    target: Target
    until: float
    homes: Places = field(default_factory=Places)
    explained: Places = field(default_factory=Places)
    declared: list[Location] = field(default_factory=list)
    meanings: dict[Word, Meaning] = field(default_factory=dict)
    texts: Texts = field(kw_only=True)
    _met: set[tuple[str, int, int]] = field(default_factory=set)
    _bindings: dict[str, Callable[[Position], bool]] = field(default_factory=dict)

    async def find_homes(self, places: Places) -> None:
        """Ask where the symbol is defined and declared."""
        self.homes = places.copy()
        for method in (_DEFINITION, _DECLARATION):
            if self.target.server.supports(method):
                self.declared += await self._locations(method, self.target.params) or ()
        for path, order in await asyncio.to_thread(real_orders, self.declared):
            self.homes.add(path, order)
        self.explained = self.homes.copy()
        start = self.target.position
        at = (start["line"], start["character"], start["line"], start["character"])
        file = await asyncio.to_thread(file_of, self.target.path)
        self.homes.add(file, at)
        if self.declared or self.target.symbol is not None:
            # else the server does not know what is there, and only the words tell of it
            self.explained.add(file, at)

    async def ask(self, rest: Sequence[Word]) -> None:
        """Ask what the words mean, as long as there is time."""
        server = self.target.server
        if not server.supports(_DEFINITION):
            return
        # clangd guesses what words in strings mean
        asks_strings = server.specification.changes != "open-documents"
        queue = _in_few_files(asking_order(rest, asks_strings=asks_strings))[:MAX_ASKED]
        try:
            async with asyncio.timeout_at(self.until):
                while queue:
                    batch, queue = queue[:ROUND], queue[ROUND:]
                    others = await self._ask_batch(batch)
                    if len(queue) >= WORTH_ALL_USES:
                        queue = await self._without_uses(others, queue)
        except TimeoutError:
            return

    async def find_guessed(self, conditions: Mapping[Word, str]) -> set[Word]:
        """The words of which the server only guesses that they are another symbol.

        clangd does not read code that a condition leaves out. There it takes a word for the nearest symbol
        of the same name, but highlights nothing.
        """
        server = self.target.server
        guesses = server.specification.changes == "open-documents" and server.supports(_HIGHLIGHT)
        doubtful_words = [word for word in conditions if guesses and self.meanings.get(word) == "other"]
        answers = await asyncio.gather(*(self._is_highlighted(word) for word in doubtful_words[:MAX_ASKED]))
        certain = {word for word, is_certain in zip(doubtful_words, answers, strict=False) if is_certain}
        return set(doubtful_words) - certain

    async def _is_highlighted(self, word: Word) -> bool:
        """Whether the server knows the symbol at a word; not if it does not answer in time."""
        seconds = self.until + LEAST_S - asyncio.get_running_loop().time()
        try:
            answer = await self.target.server.request(_HIGHLIGHT, _params(word), timeout_s=seconds)
        except (RequestFailed, RequestTimedOut):
            return False
        return bool(list_of(answer))

    async def _ask_batch(self, batch: Sequence[Word]) -> list[tuple[Word, Meaning]]:
        """Ask about some words; returns one word for each other symbol that was not met before."""
        answers = await asyncio.gather(*(self._definitions(word) for word in batch))
        others: list[tuple[Word, Meaning]] = []
        for word, locations in zip(batch, answers, strict=True):
            if locations is None:
                continue
            meaning = await asyncio.to_thread(self._meaning, locations)
            self.meanings[word] = meaning
            if meaning in {"other", "bound"}:
                path, order = (await asyncio.to_thread(real_orders, locations[:1]))[0]
                if (home := (path, *order[:2])) not in self._met:
                    self._met.add(home)
                    others.append((word, meaning))
        return others

    async def _without_uses(self, others: Sequence[tuple[Word, Meaning]], queue: list[Word]) -> list[Word]:
        """The words that are not uses of other symbols, as the server tells of these."""
        if not self.target.server.supports(_REFERENCES):
            return queue
        for word, meaning in others:
            params = {**_params(word), "context": {"includeDeclaration": True}}
            locations = await self._locations(_REFERENCES, params) or []
            uses = await asyncio.to_thread(places_of, locations)
            self.meanings |= {each: meaning for each in queue if uses.covers(each)}
            queue = left_out(queue, uses)
        return queue

    async def _definitions(self, word: Word) -> list[Location] | None:
        """Where a word is defined; None if the server does not answer in time."""
        try:
            await self.target.server.open(Path(word.path))
        except OSError:
            return []
        return await self._locations(_DEFINITION, _params(word))

    async def _locations(self, method: str, params: Mapping[str, Any]) -> list[Location] | None:
        """The locations that a server answers with; None if it does not answer in time."""
        seconds = self.until - asyncio.get_running_loop().time()
        if seconds <= 0:
            return None
        try:
            return locations_of(await self.target.server.request(method, params, timeout_s=seconds))
        except RequestFailed:
            return []
        except RequestTimedOut:
            return None

    def _meaning(self, locations: Sequence[Location]) -> Meaning:
        """What definitions say of a word. Blocks."""
        orders = real_orders(locations)
        if not orders:
            return "none"
        if any(
            self.homes.covers(Word(path, line, start, start, "code")) for path, (line, start, _, _) in orders
        ):
            return "same"
        homes = [Path(path) for path, _ in real_orders(self.declared)] or [self.target.path]
        if any(self._may_copy(Path(path), homes) for path, _ in orders):
            return "copy"
        return "bound" if any(self._is_bound(path, *order[:2]) for path, order in orders) else "other"

    def _is_bound(self, path: str, line: int, character: int) -> bool:
        """Whether a script gives the symbol another name there: by an import, or by assigning it."""
        if Path(path).suffix not in SCRIPTS or not self.workplace.workspace.contains(Path(path)):
            return False
        if self.homes.count(path, line):  # `exports.parse = parse`, or `exports.parse = function parse()`
            return True
        if path not in self._bindings:
            lines = self.texts.lines(Path(path)) or ()
            is_plain = Path(path).suffix in PLAIN_SCRIPTS
            self._bindings[path] = import_finder(lines, BINDING if is_plain else IMPORT)
        return self._bindings[path](Position(line + 1, character + 1))

    def _may_copy(self, path: Path, homes: Sequence[Path]) -> bool:
        """Whether a file may be made from one of those that declare the symbol: built, or installed."""
        workspace = self.workplace.workspace
        if not workspace.contains(path) or not without_libraries(workspace, [path]):
            return any(_tail(path) == _tail(home) for home in homes)
        is_declaration = path.name.endswith((".d.ts", ".d.mts", ".d.cts"))
        return is_declaration and not _BUILT.isdisjoint(path.parts) and path not in homes


def _tail(path: Path) -> tuple[str, str]:
    """The folder's name, and the file's up to its first dot."""
    return path.parent.name, path.name.partition(".")[0]


def places_of(locations: Sequence[Location]) -> Places:
    """The places by the real paths of their files. Blocks."""
    places, real = Places(), dict[Path, str]()
    for location in locations:
        order = order_of(location.where)
        if order is not None:
            if location.path not in real:
                real[location.path] = file_of(location.path)
            places.add(real[location.path], order)
    return places


def real_orders(locations: Sequence[Location]) -> list[tuple[str, tuple[int, int, int, int]]]:
    """The real paths and the numbers of ranges. Blocks."""
    orders = [(location, order_of(location.where)) for location in locations]
    return [(file_of(location.path), order) for location, order in orders if order is not None]


def _params(word: Word) -> dict[str, Any]:
    position = {"line": word.line, "character": word.start}
    return {"textDocument": {"uri": to_uri(Path(word.path))}, "position": position}


def _in_few_files(words: Sequence[Word]) -> list[Word]:
    """The words in the first `MAX_ASKED_FILES` files."""
    files = set(list(dict.fromkeys(word.path for word in words))[:MAX_ASKED_FILES])
    return [word for word in words if word.path in files]
