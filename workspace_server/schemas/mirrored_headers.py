"""Checks that `Mcp-Param-*` headers repeat the arguments that a tool's schema annotates. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.param_headers import Mirrored, value_at

_DECIMAL: Final = re.compile(r"(-?(?:0|[1-9]\d{0,400}))(?:\.0+)?")


def mismatch(
    header: Mapping[str, str], mirrored: Iterable[Mirrored], arguments: Mapping[str, Any]
) -> str | None:
    """The first difference between the mirrored headers of a call and its arguments, or None.

    Args:
        header: the request's headers, case-insensitive and without duplicates.
        mirrored: the arguments that headers must repeat, from the tool's `inputSchema`.
        arguments: the call's arguments; null counts as missing.
    """
    for one in mirrored:
        name, path = one.header, ".".join(one.path)
        value = value_at(arguments, one.path)
        sent = header.get(name)
        if (sent is None) != (value is None):
            return f"{name} is {'missing' if sent is None else 'sent'}; the argument {path} is not"
        if sent is None or value is None:
            continue
        text = headers.decode_value(sent)
        if text is None:
            return f"{name} is not canonical base64 of UTF-8"
        if not _equal(one.kind, value, text):
            return f"{name} differs from the argument {path}"
    return None


def _equal(kind: str, value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if kind == "integer" and isinstance(value, int | float):
        found = _DECIMAL.fullmatch(text)
        return found is not None and value == value // 1 and int(found[1]) == int(value)
    return isinstance(value, str) and text == value
