"""Trace contexts that the manager begins: each has a random number of its own."""

from __future__ import annotations

from lm_tools_bridge.protocol.trace_context import make_traceparent
from manager.answers.call_origin import make_trace_number


def test_numbers_are_random_and_fit_into_a_column() -> None:
    numbers = [make_trace_number() for _ in range(1000)]
    assert len(set(numbers)) == 1000
    assert max(numbers) > 1 << 62  # each bit is used
    assert all(0 < one < 1 << 63 for one in numbers)


def test_contexts_differ_from_call_to_call() -> None:
    contexts = {make_traceparent(make_trace_number()) for _ in range(1000)}
    halves = [{one[begin : begin + 16] for one in contexts} for begin in (3, 19)]
    assert [len(one) for one in (contexts, *halves)] == [1000, 1000, 1000]
