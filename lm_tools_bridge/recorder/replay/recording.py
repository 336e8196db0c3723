"""Reads the calls to replay, of the recorder's database or of a file from `lmtb calls export`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import names
from lm_tools_bridge.recorder.call_log import Call, Contents
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.redaction import HIDDEN
from manager.call_observer import GOES_ON, TASK

CONTENTS_STEP: Final = "record contents first (lmtb record on --contents), and let the agent call it again"


class RecordedCall(msgspec.Struct, frozen=True):
    """A call that can be sent again.

    Attributes:
        name: how it is called in messages: its id, or its line in the file.
        result: its result; None if that was not recorded as a whole.
        problem: why it cannot be sent again; None if it can.
    """

    name: str
    tool: str
    project: str | None
    arguments: dict[str, Any]
    result: Any = None
    problem: str | None = None


def recorded_call(name: str, call: Call, contents: Contents | None) -> RecordedCall:
    """A call of the database with its contents."""
    tool, project = call.tool or "", call.project
    if call.method != "tools/call" or not tool:
        return RecordedCall(name, call.method, project, {}, problem="it is no call of a tool")
    if contents is None or contents.arguments is None:
        return RecordedCall(name, tool, project, {}, problem="its arguments were not recorded")
    arguments = _parsed(contents.arguments)
    if not isinstance(arguments, dict):
        return RecordedCall(name, tool, project, {}, problem="its arguments were recorded only in part")
    if HIDDEN in contents.arguments:
        return RecordedCall(name, tool, project, arguments, problem="secrets in its arguments were hidden")
    is_known = not contents.is_cut and contents.result is not None and call.outcome != TASK
    result = _parsed(contents.result or "") if is_known else None
    return RecordedCall(name, tool, project, arguments, result)


def read_file(file: Path) -> list[RecordedCall]:
    """The calls of tools in an exported file.

    Raises:
        Failure: it cannot be read, or has no such calls.
    """
    try:
        calls = list(_calls_in(file.read_text("utf-8").splitlines(), file.name))
    except (OSError, ValueError, msgspec.ValidationError) as error:
        step = "make it with: lmtb calls export --contents -o FILE"
        raise Failure(
            f"{file} is no file of recorded calls: {error}", step, reason="unusable_file"
        ) from error
    if not calls:
        raise Failure(f"{file} has no recorded calls", "make it with: lmtb calls export --contents -o FILE")
    return calls


def _calls_in(lines: Iterable[str], file: str) -> Iterator[RecordedCall]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        members = json.loads(line)
        held = members.pop("contents", None)
        contents = None if held is None else msgspec.convert(held, Contents)
        call = msgspec.convert(members, Call)
        if call.method == "tools/call" and call.outcome not in GOES_ON and not _is_own(call):
            yield recorded_call(f"{file}:{number}", call, contents)


def _is_own(call: Call) -> bool:
    """Whether it is a call of a tool of the manager, which depends on its session."""
    return call.tool in names.MANAGER_TOOL_NAMES


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
