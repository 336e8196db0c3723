"""Says what the recorder stores of a response: its outcome, the code of an error, its size. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from protocol import jsonrpc

SEARCHED: Final = 2048
"""Bytes of a response up to which it is searched for a tool's error; those are rarely larger."""
_IS_ERROR: Final = b'"isError"'
_ERROR: Final = re.compile(rb'"isError"\s*:\s*true')
"""Not within a text: there, quotes follow a backslash."""
_INPUT_REQUIRED: Final = b'"input_required"'


class AnswerFacts(NamedTuple):
    """What a response says. `outcome` is `ok`, `error` or `input_required`."""

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
        is_asking = kind is not None and jsonrpc.bytes_of(kind) == _INPUT_REQUIRED
        return AnswerFacts("input_required" if is_asking else "ok", None, size)
    if _INPUT_REQUIRED in body or (_IS_ERROR in body and size > SEARCHED):
        return facts_of(body, members, jsonrpc.members_of(members.get("result", b"{}")))
    return AnswerFacts("error" if has_tool_error(body) else "ok", None, size)


def _code(error: msgspec.Raw) -> int | None:
    code = jsonrpc.members_of(error).get("code")
    try:
        return None if code is None else int(jsonrpc.bytes_of(code))
    except ValueError:
        return None
