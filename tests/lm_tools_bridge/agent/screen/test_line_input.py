"""Answers at a terminal without colours: what comes with the prompt counts, what came before does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import StringIO

import pytest

from lm_tools_bridge.agent.interaction import Question
from lm_tools_bridge.agent.screen.line_input import LineInput
from lm_tools_bridge.agent.screen.plain_screen import PlainScreen

PROMPT = "Execute? "


class QuickPerson(StringIO):
    """Answers in the moment in which the prompt is printed."""

    def __init__(self, terminal: int) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str) -> int:
        if text == PROMPT:
            os.write(self._terminal, b"y\n")
        return super().write(text)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


async def test_a_quick_answer_counts_and_an_earlier_one_does_not(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    screen = PlainScreen(StringIO(), QuickPerson(ours), LineInput(theirs), asks=True)
    os.write(ours, b"n\n")
    assert await screen.ask(Question(PROMPT)) == "y"
