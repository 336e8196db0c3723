"""Writes the lines of the guard's boxes: single lines, in which nothing can act on a terminal. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.text.printable import printable, printable_lines

MAX_INPUTS: Final = 2_000
"""Characters of the arguments that are shown; the count of the others is."""
_MAX_NAME: Final = 200
_MAX_QUESTION_LINES: Final = 200
_MAX_LINE: Final = 2_000


def compact(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON on one line, for display and for editing; nothing in it is changed."""
    return json.dumps(arguments, ensure_ascii=False, default=str)


def call_lines(name: str, arguments: Mapping[str, Any], reason: str = "") -> list[str]:
    """The lines of a box about one call; `reason` says why the answer defaults to no."""
    inputs = printable(compact(arguments), width=MAX_INPUTS)
    lines = [f"Action:  {printable(name, width=_MAX_NAME)}", f"Inputs:  {inputs}"]
    return [*lines, f"Reason:  {printable(reason, width=_MAX_LINE)}"] if reason else lines


def is_cut(arguments: Mapping[str, Any]) -> bool:
    """Whether the box does not show all of the arguments."""
    return len(compact(arguments)) > MAX_INPUTS


def question_lines(question: str) -> list[str]:
    """The lines of a server's own question."""
    return printable_lines(question, most=_MAX_QUESTION_LINES, width=_MAX_LINE)
