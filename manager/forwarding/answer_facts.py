"""Reads the outcome, the code of an error and the size from a response. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from manager.call_observer import TASK

SEARCHED: Final = 2048
"""Bytes of a response up to which it is searched for a tool's error or a task; those are rarely larger."""
_IS_ERROR: Final = b'"isError"'
_ERROR: Final = re.compile(rb'"isError"\s*:\s*true')
"""Not within a text: there, quotes follow a backslash."""
_INPUT_REQUIRED: Final = b'"input_required"'
_TASK: Final = b'"task"'
_KINDS: Final = {_INPUT_REQUIRED: "input_required", _TASK: TASK}
"""`resultType` of a response after which the call goes on -> outcome."""


class AnswerFacts(NamedTuple):
    """What a response says. `outcome` is `ok`, `error`, `input_required` or `task`."""

    outcome: str
    code: int | None
    size: int


def has_tool_error(data: bytes) -> bool:
    """Whether a response, with or without its head, seems to be a tool's error. Not for large ones."""
    # not `in`: it tries the bytes as a number first, and that exception costs more than the search
    return len(data) <= SEARCHED and data.find(_IS_ERROR) >= 0 and _ERROR.search(data) is not None


def facts_of(
    body: bytes, members: Mapping[str, msgspec.Raw], result: Mapping[str, msgspec.Raw] | None = None
) -> AnswerFacts:
    """The facts of a parsed response.

    Args:
        members: its members.
        result: those of its result, if they were parsed.
    """
    size = len(body)
    if "error" in members:
        return AnswerFacts("error", _code(members["error"]), size)
    if result is not None:
        flag, kind = result.get("isError"), result.get("resultType")
        if flag is not None and jsonrpc.bytes_of(flag) == b"true":
            return AnswerFacts("error", None, size)
        outcome = "ok" if kind is None else _KINDS.get(bytes(jsonrpc.bytes_of(kind)), "ok")
        return AnswerFacts(outcome, None, size)
    if _goes_on(body) or (size > SEARCHED and _IS_ERROR in body):
        return facts_of(body, members, jsonrpc.members_of(members.get("result", b"{}")))
    return AnswerFacts("error" if has_tool_error(body) else "ok", None, size)


def _goes_on(body: bytes) -> bool:
    """Whether a response may ask for input, or name the task that its call has become."""
    return _INPUT_REQUIRED in body or (len(body) <= SEARCHED and _TASK in body)


def _code(error: msgspec.Raw) -> int | None:
    code = jsonrpc.members_of(error).get("code")
    try:
        return None if code is None else int(jsonrpc.bytes_of(code))
    except ValueError:
        return None
