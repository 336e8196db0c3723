"""Checks a call's arguments: mirrored headers, defaults the user set, the tool's input schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import headers, jsonrpc
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH, Rejection
from workspace_server.calls.call import Call
from workspace_server.calls.request import Outcome
from workspace_server.catalog import schema_defaults
from workspace_server.catalog.registry import OfferedTool
from workspace_server.results import encode_result
from workspace_server.schemas import mirrored_headers


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
    problem = mirrored_headers.mismatch(call.request.header, offered.mirrored, arguments)
    return None if problem is None else Rejection(400, HEADER_MISMATCH, problem, call.request.id)
