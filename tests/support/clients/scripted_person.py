"""A person in front of the agent who gives prepared answers, and everything that was shown to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lm_tools_bridge.agent.interaction import Box, Question, Tone

Answer = str | None | BaseException | Callable[[], Any]


class ScriptedPerson:
    """An `Interaction`. Asked more often than there are answers, the person has gone (None).

    Attributes:
        questions: what was asked.
        boxes: what boxes were shown, each with its kind and lines.
        notices: the notices, in order.
    """

    def __init__(self, *answers: Answer) -> None:
        self.questions: list[Question] = []
        self.boxes: list[tuple[Box, list[str]]] = []
        self.notices: list[str] = []
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self._answers: Iterator[Answer] = iter(answers)

    @property
    def prompts(self) -> list[str]:
        """The prompts of all questions."""
        return [one.prompt for one in self.questions]

    @property
    def shown(self) -> str:
        """Everything that was shown, for searching."""
        lines = [line for _, box in self.boxes for line in box]
        return "\n".join([*lines, *self.notices, *self.prompts])

    def reply_text(self, text: str) -> None:
        """See `Interaction`."""

    def thinking(self, text: str) -> None:
        """See `Interaction`."""

    def reply_ended(self) -> None:
        """See `Interaction`."""

    def activity(self, text: str | None) -> None:
        """See `Interaction`."""

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        """See `Interaction`."""
        self.events.append((kind, details))

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        """See `Interaction`."""
        self.boxes.append((kind, list(lines)))

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        """See `Interaction`."""
        self.notices.append(text)

    async def ask(self, question: Question) -> str | None:
        """See `Interaction`."""
        self.questions.append(question)
        await asyncio.sleep(0)
        answer = next(self._answers, None)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            return await answer()
        return answer
