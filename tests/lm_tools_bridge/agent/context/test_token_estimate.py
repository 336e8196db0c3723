"""Estimates of what messages and tools cost, and their correction by what providers count."""

from __future__ import annotations

import pytest

from lm_tools_bridge.agent.context.token_estimate import Correction, message_tokens, tools_tokens
from lm_tools_bridge.agent.messages import AssistantMessage, Call, Result, Tool, ToolMessage, UserMessage


def test_calls_results_pictures_and_tools_are_counted() -> None:
    plain = message_tokens(AssistantMessage("a"))
    assert message_tokens(AssistantMessage("a", (Call("1", "read", {"path": "x" * 100}),))) > plain + 25
    result = Result("1", "read", "x" * 100)
    assert message_tokens(ToolMessage(result)) == message_tokens(UserMessage("x" * 100))
    picture = Result("1", "read", "", content=({"type": "image"},))
    assert message_tokens(ToolMessage(picture)) > 1000
    assert tools_tokens([Tool("read", "d" * 100, {"type": "object"})] * 2) > 80


def test_the_first_count_of_a_provider_corrects_estimates_and_later_ones_adjust() -> None:
    first = Correction().learned(1000, 1300)
    assert (first.factor, first.samples) == (1.3, 1)
    assert first.learned(1000, 1100).factor == pytest.approx(1.2)
    assert first.margin < Correction().margin


@pytest.mark.parametrize(
    ("estimate", "counted", "factor"), [(100, 300, 1), (1000, 0, 1), (1000, 9000, 3), (1000, 1, 0.4)]
)
def test_counts_that_say_little_change_little(estimate: float, counted: int, factor: float) -> None:
    assert Correction().learned(estimate, counted).factor == factor
