"""Trace contexts that the manager makes: their form follows from their numbers."""

from __future__ import annotations

import re

import pytest

from lm_tools_bridge.protocol import trace_context

FORM = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-01")


@pytest.mark.parametrize("number", [1, 2, 1 << 40, (1 << trace_context.BITS) - 1])
def test_every_number_makes_a_valid_sampled_context(number: int) -> None:
    assert FORM.fullmatch(trace_context.make_traceparent(number))


@pytest.mark.parametrize("number", [1, 2, 1 << 40, (1 << trace_context.BITS) - 1])
def test_a_made_context_is_known_again(number: int) -> None:
    text = trace_context.make_traceparent(number).decode()
    assert trace_context.is_made(text)
    assert trace_context.number_of(text) == number
    assert not trace_context.is_made(text[:-1] + "0")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        f"00-{'g' * 32}-{'g' * 16}-01",
        f"00-{'f' * 32}-{'f' * 16}-01",
        f"00-{'0' * 32}-{'0' * 16}-01",
    ],
)
def test_a_context_of_somebody_else_is_not_taken_for_a_made_one(text: str) -> None:
    assert not trace_context.is_made(text)
    assert trace_context.number_of(text) == 0
