"""Checks a call's arguments: mirrored headers, defaults the user set, the tool's input schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import headers, jsonrpc
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH, Rejection
from lm_tools_bridge.protocol.param_headers import Mirrored, value_at
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome
from workspace_server.catalog import schema_defaults
from workspace_server.catalog.registry import OfferedTool
from workspace_server.results import encode_result


class CheckedCall(msgspec.Struct, frozen=True):
    """A call that can run: its tool, and its arguments, decoded and with defaults filled in."""

    call: Call
    offered: OfferedTool
    arguments: Mapping[str, Any]


def check(call: Call, offered: OfferedTool) -> CheckedCall | Outcome:
    """The call, ready to run, or the answer that says what is wrong with its arguments.

    Which checks apply depends on the call's way (`ways.py`).
    """
    arguments: Mapping[str, Any] = msgspec.json.decode(call.arguments)
    if call.rules.checks_headers and (mismatch := _header_mismatch(call, offered, arguments)) is not None:
        return mismatch
    if not call.rules.checks_arguments:
        return CheckedCall(call, offered, arguments)
    filled = schema_defaults.fill(offered, arguments)
    if filled is not arguments:
        call = replace(call, arguments=jsonrpc.raw(filled))
    if problems := offered.arguments.check(filled):
        from workspace_server.schemas import validation  # loaded with the first call

        return encode_result(validation.invalid_arguments_result(offered.named_tool(), problems))
    return CheckedCall(call, offered, filled)


def fitting(offered: OfferedTool, text: bytes) -> Mapping[str, Any] | None:
    """Arguments, given as JSON text, decoded and with defaults filled in; None if they violate the schema."""
    arguments = schema_defaults.fill(offered, msgspec.json.decode(text))
    return None if offered.arguments.check(arguments) else arguments


def _header_mismatch(call: Call, offered: OfferedTool, arguments: Mapping[str, Any]) -> Rejection | None:
    """The error for a call whose mirrored headers disagree with its arguments."""
    if not offered.mirrored or headers.UNMIRRORED in call.request.header:
        return None
    problem = mismatch(call.request.header, offered.mirrored, arguments)
    return None if problem is None else Rejection(400, HEADER_MISMATCH, problem, call.request.id)


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
        match = _DECIMAL.fullmatch(text)
        return match is not None and value == value // 1 and int(match[1]) == int(value)
    return isinstance(value, str) and text == value
