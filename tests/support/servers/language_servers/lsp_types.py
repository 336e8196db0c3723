"""Compares messages to language servers with the types of the LSP specification, as lsprotocol has them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from lsprotocol import types
from lsprotocol.converters import get_converter

EXTENSIONS: Final = {"textDocument/didChange": ("wantDiagnostics", "forceRebuild")}
"""Members that clangd adds to messages of LSP."""


@cache
def _converter() -> Any:
    return get_converter()


def assert_is_lsp(method: str, params: Any) -> None:
    """Fail if LSP has this method, and the parameters are not its: a member is missing, unknown or of a wrong type."""
    if method not in types.METHOD_TO_TYPES:
        return
    known, *_ = types.METHOD_TO_TYPES[method]
    sent = {key: value for key, value in (params or {}).items() if key not in EXTENSIONS.get(method, ())}
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if any(field.name == "id" for field in known.__attrs_attrs__):
        message["id"] = 1
    if params is not None:
        message["params"] = sent
    try:
        understood = _converter().unstructure(_converter().structure(message, known), known)
    except Exception as problem:
        raise AssertionError(f"{method}: {problem!r}") from problem
    assert understood == message, method
