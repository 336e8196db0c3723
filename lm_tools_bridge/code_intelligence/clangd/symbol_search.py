"""The tool `lm_clangd_symbolSearch`: declarations by name, with their signatures."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.failures import ClangdFailure
from lm_tools_bridge.code_intelligence.clangd.places import Place
from lm_tools_bridge.code_intelligence.clangd.results import Answer
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry
from lm_tools_bridge.code_intelligence.clangd.symbol_names import (
    hover_text,
    kind_name,
    qualified,
    signature_in,
)
from lm_tools_bridge.code_intelligence.name_matching import BadPattern, matching
from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.wire import document_uris
from workspace_server.workspace import absolute_text

AT_ONCE: Final = 8
"""Signatures that are asked for at the same time."""
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL: Final = re.compile(r"\\.|\[[^\]]*\]|\{[^}]*\}|.[*?]|\(\?[^)]*")

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FoundSymbol:
    """A declaration that was found, and clangd's own words about it."""

    name: str
    kind: str
    container: str | None
    place: Place
    raw_start: Mapping[str, Any]

    @property
    def label(self) -> str:
        """As texts show it: `<kind> <name> (<container>)`."""
        return f"{self.kind} {self.name}" + (f" ({self.container})" if self.container else "")


async def symbol_search(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The declarations with a name, or whose names match a pattern."""
    found = await find_symbols(call, arguments)
    shown = found[: arguments.get("limit", 50)]
    gate = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_signature(call, one, gate)) for one in shown]
    signatures = [task.result() for task in tasks]
    return Answer(
        "symbolSearch",
        Counts(len(found), len(shown)),
        {"entries": [_structured(one, *read) for one, read in zip(shown, signatures, strict=True)]},
        entries=[
            Entry(one.place.text, f"{one.label} | signature: {text or '(none)'}")
            for one, (text, _) in zip(shown, signatures, strict=True)
        ],
        extras={"matchMode": arguments.get("matchMode", "exact")},
    )


async def find_symbols(call: ClangdCall, arguments: Mapping[str, Any]) -> list[FoundSymbol]:
    """The declarations that `query`, `matchMode`, `kinds` and `scopePath` of a tool select, by place."""
    query, mode = str(arguments["query"]).strip(), arguments.get("matchMode", "exact")
    asked = _literal(query) if mode == "regex" else query.rpartition("::")[2]
    symbols = list_of(await call.ask("workspace/symbol", {"query": asked}))
    kept = await _by_pattern(query, symbols) if mode == "regex" else _by_name(query, symbols)
    kinds = {str(kind).casefold() for kind in arguments.get("kinds", ())}
    scope = await _scope(call, arguments.get("scopePath"))
    found = [await _found(call, symbol) for symbol in kept]
    fitting = [
        one
        for one in found
        if one is not None
        and (not kinds or one.kind.casefold() in kinds)
        and (scope is None or one.place.path == scope or scope in one.place.path.parents)
    ]
    return sorted(fitting, key=lambda one: (absolute_text(one.place.path), one.place.span.start))


def _by_name(query: str, symbols: Sequence[Raw]) -> list[Raw]:
    """Those of this name; a qualified name may lack its outer parts."""
    wanted = query.removeprefix("::")
    return [one for one in symbols if f"::{qualified(one)}".endswith(f"::{wanted}")]


async def _by_pattern(pattern: str, symbols: Sequence[Raw]) -> list[Raw]:
    indices = await matching(pattern, [qualified(one) for one in symbols])
    if isinstance(indices, BadPattern):
        raise ClangdFailure("INVALID_INPUT", f"query: {indices.reason}")
    return [symbols[index] for index in indices]


def _literal(pattern: str) -> str:
    """The longest word that every match of a pattern contains, as far as that is plain; empty if unsure."""
    if "|" in pattern:
        return ""
    return max(_WORD.findall(_SPECIAL.sub(" ", pattern)), key=len, default="")


async def _scope(call: ClangdCall, text: object) -> Path | None:
    if not isinstance(text, str):
        return None
    return await asyncio.to_thread(_folder_or_file, call, text)


def _folder_or_file(call: ClangdCall, text: str) -> Path:
    for folder in call.workspace.folders:
        name, _, rest = text.replace("\\", "/").partition("/")
        candidates = [folder.path / text] + ([folder.path / rest] if name == folder.name else [])
        for path in candidates:
            if path.exists() and call.workspace.contains(path.resolve()):
                return path.resolve()
    raise ClangdFailure("INVALID_INPUT", f"scopePath: {text!r} is no file or folder of the workspace")


async def _found(call: ClangdCall, symbol: Raw) -> FoundSymbol | None:
    location = symbol.get("location")
    places = await call.places.of(location)
    if not places or not isinstance(location, Mapping):
        return None
    if not await call.places.may_say(str(symbol.get("name")), [places[0].path]):
        return None
    container = symbol.get("containerName")
    return FoundSymbol(
        str(symbol.get("name", "?")),
        kind_name(symbol.get("kind")),
        container if isinstance(container, str) and container else None,
        places[0],
        location["range"]["start"],
    )


async def _signature(
    call: ClangdCall, symbol: FoundSymbol, gate: asyncio.Semaphore
) -> tuple[str | None, str]:
    """The signature, and where it was read: `hover`, `definitionLine` or `none`."""
    async with gate:
        try:
            await call.server.open(symbol.place.path)
            document = {"uri": document_uris.to_uri(symbol.place.path)}
            hover = await call.ask(
                "textDocument/hover", {"textDocument": document, "position": symbol.raw_start}
            )
        except (ClangdFailure, OSError, ServerGone):
            hover = None
    signature = signature_in(hover_text(hover))
    if not await call.places.may_say(signature or "", [symbol.place.path]):
        return None, "none"
    if signature is not None:
        return signature, "hover"
    return (symbol.place.preview, "definitionLine") if symbol.place.preview else (None, "none")


def _structured(symbol: FoundSymbol, signature: str | None, source: str) -> dict[str, Any]:
    container = {} if symbol.container is None else {"containerName": symbol.container}
    return {
        "name": symbol.name,
        "kind": symbol.kind,
        **container,
        "location": symbol.place.structured(),
        "signature": signature,
        "signatureSource": source,
    }
