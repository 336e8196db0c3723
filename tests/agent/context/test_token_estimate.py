"""Estimates of tokens: near to what tokenizers count, and corrected by what providers count."""

from __future__ import annotations

import json
import time

import pytest

from agent.context.token_estimate import Correction, message_tokens, text_tokens, tools_tokens
from agent.messages import AssistantMessage, Call, Result, Tool, ToolMessage, UserMessage

PROSE = (
    "The manager keeps one server for each project. A request that names a workspace is forwarded to its server, "
    "and the answer comes back on the same connection. Nothing else is shared between projects."
)
CODE = '''def read(path: Path, limit: int) -> bytes | None:
    """The content of a file; None when it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1)
'''
DATA = json.dumps(
    [{"path": f"/srv/a/{at}.py", "size": at * 337, "mtime": 1700000000 + at * 71} for at in range(40)]
)


@pytest.mark.parametrize(
    ("text", "counted"), [(PROSE, 38), (CODE, 74), (DATA, 1038)], ids=["prose", "code", "numbers"]
)
def test_estimates_are_within_a_quarter_of_what_a_tokenizer_counts(text: str, counted: int) -> None:
    """Counted with the vocabulary cl100k."""
    assert 0.75 <= text_tokens(text) / counted <= 1.25


def test_nothing_costs_nothing_and_odd_text_is_estimated() -> None:
    assert text_tokens("") == 0
    assert text_tokens("\ud83d") > 0


def test_a_mebibyte_is_estimated_in_a_moment() -> None:
    started = time.process_time()
    text_tokens(DATA * 400)
    assert time.process_time() - started < 0.2


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
