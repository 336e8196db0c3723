"""The way of one call, as docs/build/architecture.md shows it, is the way that a real call takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import manager
from scripts.call_trace.__main__ import Trace, trace_call

ARCHITECTURE = Path(manager.__file__).parents[1] / "docs" / "build" / "architecture.md"
MOST_MODULES = {"manager": 36, "workspace_server": 33}
"""Who reads the way of one call opens so many modules; fewer are better."""


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    """The shortest of a few ways: on a busy machine a call also meets modules that wait or look again."""
    for _ in range(2):
        calls = trace_call("lm_readFile")
        if all(len(calls[program].modules) <= most for program, most in MOST_MODULES.items()):
            return calls
    return trace_call("lm_readFile")


def shown_way(program: str) -> list[str]:
    """The modules of a program in the description of the traced way."""
    text = ARCHITECTURE.read_text("utf-8").partition("as `scripts/trace-call` traces it")[2]
    return re.findall(rf"`({program}/[a-z_/]+\.py)`", text.partition("\n\n`lmtb connect`")[0])


@pytest.mark.parametrize("program", MOST_MODULES)
def test_a_call_enters_the_modules_of_the_architecture_in_their_order(
    program: str, traces: dict[str, Trace]
) -> None:
    shown = shown_way(program)
    assert shown
    assert [module for module in traces[program].modules if module in shown] == shown


@pytest.mark.parametrize("program", MOST_MODULES)
def test_a_call_enters_no_more_modules_than_before(program: str, traces: dict[str, Trace]) -> None:
    assert len(traces[program].modules) <= MOST_MODULES[program]
