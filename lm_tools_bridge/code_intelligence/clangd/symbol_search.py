"""The tool `lm_clangd_symbolSearch`: declarations by name, with their signatures."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.clangd.answers import (
    Answer,
    ClangdFailure,
    Counts,
    Entry,
    location,
    place_text,
    preview,
)
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.clangd.name_matching import BadPattern, matching
from lm_tools_bridge.code_intelligence.clangd.symbol_names import (
    hover_text,
    kind_name,
    qualified,
    signature_in,
)
from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, locations_of, place_of
from lm_tools_bridge.code_intelligence.wire import document_uris

AT_ONCE: Final = 8
"""Signatures that are asked for at the same time: fewer than files may be open in clangd."""
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL: Final = re.compile(r"\\.|\[[^\]]*\]|\{[^}]*\}|.[*?]|\(\?[^)]*")

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration that clangd found; `start` is where its name begins, as clangd counts."""

    name: str
    kind: str
    container: str | None
    place: Place
    start: Mapping[str, Any]

    @property
    def label(self) -> str:
        """As texts show it: `<kind> <name> (<container>)`."""
        return f"{self.kind} {self.name}" + (f" ({self.container})" if self.container else "")


async def symbol_search(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The declarations with a name, or whose names match a pattern."""
    declarations = await find_declarations(call, arguments)
    page = declarations[: arguments.get("limit", 50)]
    gate = asyncio.Semaphore(AT_ONCE)
    signatures = await asyncio.gather(*(_signature(call, declaration, gate) for declaration in page))
    pairs = list(zip(page, signatures, strict=True))
    return Answer(
        "symbolSearch",
        Counts(len(declarations), len(page)),
        {"entries": [_structured(call, declaration, *signature) for declaration, signature in pairs]},
        entries=[
            Entry(
                place_text(declaration.place, call.workplace),
                f"{declaration.label} | signature: {text or '(none)'}",
            )
            for declaration, (text, _) in pairs
        ],
        extras={"matchMode": arguments.get("matchMode", "exact")},
    )


async def find_declarations(call: ClangdCall, arguments: Mapping[str, Any]) -> list[Declaration]:
    """The declarations that `query`, `matchMode`, `kinds` and `scopePath` of a tool select, by place."""
    query, is_pattern = str(arguments["query"]).strip(), arguments.get("matchMode", "exact") == "regex"
    word = _literal(query) if is_pattern else query.rpartition("::")[2]
    symbols = list_of(await call.ask("workspace/symbol", {"query": word}))
    symbols = await _by_pattern(query, symbols) if is_pattern else _by_name(query, symbols)
    kinds = {str(kind).casefold() for kind in arguments.get("kinds", ())}
    scope = await _scope(call, arguments.get("scopePath"))
    paths = [each.path for each in locations_of([raw.get("location") for raw in symbols])]
    own = await call.workplace.own(paths)
    declarations = await call.workplace.run(paths, lambda: [_declaration(call, raw) for raw in symbols])
    selected = [
        declaration
        for declaration in declarations
        if declaration is not None
        and declaration.place.path in own
        and (not kinds or declaration.kind.casefold() in kinds)
        and (scope is None or declaration.place.path.is_relative_to(scope))
    ]
    return sorted(selected, key=lambda declaration: declaration.place.order)


def _by_name(query: str, symbols: Sequence[Raw]) -> list[Raw]:
    """Those of this name; a qualified name may lack its outer parts."""
    name = query.removeprefix("::")
    return [raw for raw in symbols if f"::{qualified(raw)}".endswith(f"::{name}")]


async def _by_pattern(pattern: str, symbols: Sequence[Raw]) -> list[Raw]:
    indices = await matching(pattern, [qualified(raw) for raw in symbols])
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
    workspace = call.workplace.workspace
    for folder in workspace.folders:
        name, _, rest = text.replace("\\", "/").partition("/")
        candidates = [folder.path / text] + ([folder.path / rest] if name == folder.name else [])
        for path in candidates:
            if path.exists() and workspace.contains(path.resolve()):
                return path.resolve()
    raise ClangdFailure("INVALID_INPUT", f"scopePath: {text!r} is no file or folder of the workspace")


def _declaration(call: ClangdCall, raw: Raw) -> Declaration | None:
    """The declaration of a `SymbolInformation`; None without a place, or if it must not be told. Blocks."""
    where = raw.get("location")
    if not isinstance(where, Mapping):
        return None
    place = place_of(where.get("uri"), where.get("range"), call.texts, call.server.encoding)
    if place is None or not call.texts.may_say(str(raw.get("name")), [place.path]):
        return None
    container = raw.get("containerName")
    return Declaration(
        str(raw.get("name", "?")),
        kind_name(raw.get("kind")),
        container if isinstance(container, str) and container else None,
        place,
        where["range"]["start"],
    )


async def _signature(
    call: ClangdCall, declaration: Declaration, gate: asyncio.Semaphore
) -> tuple[str | None, str]:
    """The signature, and where it was read: `hover`, `definitionLine` or `none`."""
    path, hover = declaration.place.path, None
    async with gate:
        with suppress(ClangdFailure, OSError, ServerGone):
            await call.server.open(path)
            place = {"textDocument": {"uri": document_uris.to_uri(path)}, "position": declaration.start}
            hover = await call.ask("textDocument/hover", place)
    signature = signature_in(hover_text(hover))
    if not await call.may_say(signature or "", [path]):
        return None, "none"
    if signature is not None:
        return signature, "hover"
    line = preview(declaration.place)
    return (line, "definitionLine") if line else (None, "none")


def _structured(
    call: ClangdCall, declaration: Declaration, signature: str | None, source: str
) -> dict[str, Any]:
    container = {} if declaration.container is None else {"containerName": declaration.container}
    return {
        "name": declaration.name,
        "kind": declaration.kind,
        **container,
        "location": location(declaration.place, call.workplace),
        "signature": signature,
        "signatureSource": source,
    }
