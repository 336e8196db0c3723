"""Reads what clients say of their roots: whether they can be asked, and their answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc

MAX_ROOTS: Final = 32
"""Roots that are read of one answer: each costs a look at the disk, and no editor opens as many folders."""
MAX_URI: Final = 16 * 1024
"""Longest URI of a root, the size of a request head, in which a folder may come as well."""


def roots_in(result: bytes | msgspec.Raw) -> tuple[str, ...]:
    """The `file:` URIs in a `roots/list` result; empty if the result is invalid."""
    try:
        roots = msgspec.json.decode(jsonrpc.members_of(result).get("roots", b"[]"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    entries: Iterable[Any] = roots[:MAX_ROOTS] if isinstance(roots, list) else ()
    uris = (entry.get("uri") for entry in entries if isinstance(entry, Mapping))
    return tuple(uri for uri in uris if isinstance(uri, str) and len(uri) <= MAX_URI and _is_file(uri))


def _is_file(uri: str) -> bool:
    return uri[:5].lower() == "file:"


def declares_roots(capabilities: bytes | msgspec.Raw) -> bool:
    """Whether a client with these capabilities can be asked for its roots."""
    return "roots" in jsonrpc.members_of(capabilities)
