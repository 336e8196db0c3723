"""A server that ends in the middle of a call costs the caller nothing but time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server import ServerGone
from lm_tools_bridge.code_intelligence.tools import second_try
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

CRASHED = {"freshness": [{"provider": "ty", "state": "crashed", "reason": "ty was ended by SIGKILL"}]}
GOOD = ToolResult("good", {"freshness": [{"provider": "ty", "state": "fresh"}]})


def asked(*outcomes: Any) -> Any:
    """Gives or raises these, one a call."""
    left: Iterator[Any] = iter(outcomes)

    async def ask(arguments: Any) -> Any:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return ask


@pytest.mark.parametrize(
    "first",
    [
        ToolResult("0 uses", CRASHED),
        ToolError("no symbol has the name x so far", CRASHED),
        ServerGone("ty was ended by SIGKILL"),
    ],
)
async def test_the_second_answer_counts_when_the_server_ended_in_the_first(first: Any) -> None:
    assert await second_try.answered(asked(first, GOOD), {}) == GOOD


async def test_other_outcomes_are_not_asked_for_again() -> None:
    assert await second_try.answered(asked(GOOD), {}) == GOOD
    for failure in (ToolError("no symbol"), InvalidArguments("/symbol", "no")):
        with pytest.raises(type(failure)):
            await second_try.answered(asked(failure), {})


async def test_a_server_that_ends_again_is_told() -> None:
    crashed = ToolResult("0 uses", CRASHED)
    assert await second_try.answered(asked(crashed, crashed), {}) == crashed
    with pytest.raises(ToolError, match="ty was ended by SIGKILL; call again"):
        await second_try.answered(asked(*[ServerGone("ty was ended by SIGKILL")] * 2), {})


async def test_a_slow_first_try_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_try, "FIRST_S", -1.0)
    crashed = ToolResult("0 uses", CRASHED)
    assert await second_try.answered(asked(crashed), {}) == crashed


async def test_both_tries_together_wait_as_long_as_the_call_says() -> None:
    waits: list[float] = []

    async def ask(arguments: Any) -> Any:
        waits.append(arguments["waitS"])
        await asyncio.sleep(0.05)
        raise ServerGone("ty was ended by SIGKILL")

    with pytest.raises(ToolError):
        await second_try.answered(ask, {"waitS": 7})
    assert waits[0] == 7 and 0 < waits[1] <= 6.95
