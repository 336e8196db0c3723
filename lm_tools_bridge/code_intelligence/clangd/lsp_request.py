"""The tool `lm_clangd_lspRequest`: sends one of some requests of LSP, with positions that count from 1."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.clangd.answers import Answer, ClangdFailure, Counts, Section
from lm_tools_bridge.code_intelligence.clangd.client import ClangdCall
from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.symbols.places import locations_of
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD
from lm_tools_bridge.code_intelligence.wire import document_uris
from lm_tools_bridge.code_intelligence.wire.positions import OutsideText, Position, from_server, to_server

_DOCUMENT: Final = "textDocument/"
METHODS: Final = (
    *(f"{_DOCUMENT}{name}" for name in ("hover", "definition", "declaration", "typeDefinition")),
    *(f"{_DOCUMENT}{name}" for name in ("implementation", "references", "documentSymbol", "signatureHelp")),
    *(f"{_DOCUMENT}{name}" for name in ("switchSourceHeader", "ast", "typeHierarchy")),
    "workspace/symbol",
)
_TELLS: Final = frozenset(
    f"{_DOCUMENT}{name}" for name in ("hover", "signatureHelp", "documentSymbol", "ast")
)
"""Methods whose results are words; those of the others are places, and names that stand there."""
_PLACES: Final = frozenset(
    {"uri", "range", "selectionRange", "location", "targetUri", "targetRange", "targetSelectionRange"}
)
"""What is left of a result about a file that must not be shown."""
MAX_TEXT: Final = 40_000
"""Characters of the result in the text; structured content has all of it."""
MAX_TIMEOUT_MS: Final = 300_000
"""As long as a call may wait for a server at most (`schemas.MAX_WAIT_S`)."""
_MAX_DEPTH: Final = 200
"""Nesting of parameters and results: deeper ones would end in a `RecursionError`."""


def methods_of(settings: ClangdSettings) -> Sequence[str]:
    """The methods that the tool may send."""
    allowed = settings.allowed_methods
    return [method for method in METHODS if not allowed or method in allowed]


async def lsp_request(call: ClangdCall, arguments: Mapping[str, Any]) -> Answer:
    """The result of one request."""
    method, params = str(arguments["method"]), arguments.get("params") or {}
    if method not in methods_of(call.settings):
        allowed = ", ".join(methods_of(call.settings)) or "none"
        raise ClangdFailure("METHOD_NOT_ALLOWED", f"{method} is not allowed; allowed: {allowed}")
    path, document = await _document(call, params)
    sent = await asyncio.to_thread(_outgoing_of, call, path, {**params, **document})
    if method == f"{_DOCUMENT}switchSourceHeader":
        sent = sent.get("textDocument")
    limit = arguments.get("timeoutMs")
    raw = await call.ask(method, sent, None if limit is None else min(limit, MAX_TIMEOUT_MS) / 1000)
    result = await asyncio.to_thread(_incoming, raw, call, path)
    words = msgspec.json.encode(result).decode()
    if method in _TELLS and not await call.may_say(words, await _files_about(call, sent, path)):
        result = WITHHELD
    text = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
    lines = text[:MAX_TEXT].splitlines()
    if len(text) > MAX_TEXT:
        lines.append(f"… {len(text) - MAX_TEXT} more characters, in structuredContent")
    return Answer(
        "lspRequest",
        None,
        {"method": method, "result": result},
        [Section("METHOD", [method]), Section("RESULT", lines)],
        extras={"method": method},
        text_counts=Counts(1, 1),
    )


async def _files_about(call: ClangdCall, sent: Any, path: Path | None) -> list[Path]:
    """The files that a result can repeat: the document, and where what is asked about is defined."""
    if path is None:
        return []
    locations: list[Mapping[str, Any]] = []
    if isinstance(sent, Mapping) and "position" in sent:
        place = {"textDocument": sent["textDocument"], "position": sent["position"]}
        for request in ("definition", "declaration"):
            with suppress(ClangdFailure):
                locations += list_of(await call.ask(f"{_DOCUMENT}{request}", place))
    return [path, *(location.path for location in locations_of(locations))]


async def _document(call: ClangdCall, params: Mapping[str, Any]) -> tuple[Path | None, Mapping[str, Any]]:
    """The document that the parameters name by `filePath` or by its URI, opened in clangd."""
    document = params.get("textDocument")
    names = document if isinstance(document, Mapping) else params
    text = names.get("filePath")
    if text is None and isinstance(uri := names.get("uri"), str):
        by_uri = document_uris.to_path(uri, Path)
        if by_uri is None:
            raise ClangdFailure("INVALID_INPUT", "/params/textDocument/uri: not the URI of a file")
        text = str(by_uri)
    if not isinstance(text, str):
        return None, {}
    path = await call.file(text)
    try:
        await call.server.open(path)
    except (OSError, ServerGone) as error:
        raise ClangdFailure("INVALID_INPUT", f"cannot open {path}: {error}") from None
    return path, {"textDocument": {"uri": document_uris.to_uri(path)}}


def _outgoing_of(call: ClangdCall, path: Path | None, params: Mapping[str, Any]) -> Any:
    return _outgoing(params, call, None if path is None else call.texts.lines(path))


def _outgoing(value: Any, call: ClangdCall, lines: Sequence[str] | None, depth: int = 0) -> Any:
    """Parameters with clangd's positions instead of ours."""
    if depth > _MAX_DEPTH:
        raise ClangdFailure("INVALID_INPUT", "/params: nested too deeply")
    if isinstance(value, Mapping):
        if _is_position(value):
            if lines is None:
                return {"line": max(0, value["line"] - 1), "character": max(0, value["character"] - 1)}
            place = to_server(Position(value["line"], value["character"]), lines, call.server.encoding)
            if isinstance(place, OutsideText):
                raise ClangdFailure("INVALID_INPUT", place.reason)
            return place
        members = {name: member for name, member in value.items() if name != "filePath"}
        return {name: _outgoing(member, call, lines, depth + 1) for name, member in members.items()}
    if isinstance(value, list):
        return [_outgoing(item, call, lines, depth + 1) for item in value]
    return value


def _incoming(value: Any, call: ClangdCall, path: Path | None, depth: int = 0) -> Any:
    """A result with our positions, not clangd's: they are about the nearest `uri` around them. Blocks."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        if _is_position(value):
            lines = None if path is None else call.texts.lines(path)
            place = from_server(value, lines, call.server.encoding)
            return None if place is None else {"line": place.line, "character": place.column}
        inner = value.get("location")
        where = inner if isinstance(inner, Mapping) else value
        about = document_uris.to_path(where.get("uri", where.get("targetUri")), Path) or path
        if about is not path and about is not None and not call.texts.admits(about):
            value = {name: member for name, member in value.items() if name in _PLACES}
        return {name: _incoming(member, call, about, depth + 1) for name, member in value.items()}
    if isinstance(value, list):
        return [_incoming(item, call, path, depth + 1) for item in value]
    return value


def _is_position(value: Mapping[str, Any]) -> bool:
    return value.keys() == {"line", "character"} and all(type(number) is int for number in value.values())
