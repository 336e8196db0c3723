"""Joins what a Python file and the stub beside it say of one symbol.

Type checkers take the stub for the module where both are: they find uses from the stub,
and from the file only its definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import LanguageServer, RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.tools.asking import list_of
from lm_tools_bridge.code_intelligence.tools.symbols.symbols import Symbol, outline
from lm_tools_bridge.code_intelligence.tools.symbols.target import Target
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.positions import order_of

_BESIDE: Final = {".py": ".pyi", ".pyi": ".py"}


async def with_other_declaration(workplace: Workplace, target: Target, texts: Texts) -> Target:
    """The target with the same symbol of the stub, or of the file that has the stub, if there is one."""
    suffix = _BESIDE.get(target.path.suffix)
    if suffix is None or target.symbol is None:
        return target
    path, name_path = target.path.with_suffix(suffix), target.symbol.path
    is_there = await workplace.run([path], path.is_file)
    symbols = await _symbols(target.server, path, texts) if is_there else ()
    alike = [symbol for symbol in symbols if symbol.path == name_path]
    return replace(target, others=[*target.others, *alike]) if alike else target


def joined_edits(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    """One `WorkspaceEdit` of two that change texts only; a change that both have is there once."""
    changes: dict[str, dict[str, Any]] = {}
    for uri, edit in [*_text_edits(first), *_text_edits(second)]:
        changes.setdefault(uri, {}).setdefault(repr(order_of(edit.get("range"))), edit)
    return {"changes": {uri: list(edits.values()) for uri, edits in changes.items()}}


def _text_edits(edit: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    changes = edit.get("changes")
    if isinstance(changes, Mapping):
        yield from ((uri, item) for uri, items in changes.items() for item in list_of(items))
    for document in list_of(edit.get("documentChanges")):
        identity = document.get("textDocument")
        uri = identity.get("uri") if isinstance(identity, Mapping) else None
        if isinstance(uri, str):
            yield from ((uri, item) for item in list_of(document.get("edits")))


async def _symbols(server: LanguageServer, path: Path, texts: Texts) -> Sequence[Symbol]:
    try:
        return await outline(server, path, texts)
    except (RequestFailed, RequestTimedOut, OSError):
        return ()
