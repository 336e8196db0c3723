"""Joins the pieces of text that arrive together, so that they are shown at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lm_tools_bridge.agent.model_events import ModelEvent, TextPart, ThinkingPart
from lm_tools_bridge.agent.providers.dialects.dialect import ReplyError


def joined_texts(groups: Iterable[Sequence[ModelEvent]]) -> Iterator[ModelEvent]:
    """The events of several documents in order; adjacent pieces of one kind become one piece.

    Raises:
        ReplyError: as raised by `groups`; the text before it is yielded first.
    """
    open_text = _OpenText()
    try:
        for events in groups:
            for event in events:
                if isinstance(event, TextPart | ThinkingPart):
                    yield from open_text.add(event)
                else:
                    yield from open_text.end()
                    yield event
    except ReplyError:
        yield from open_text.end()
        raise
    yield from open_text.end()


class _OpenText:
    """Collects pieces of one kind until another event comes."""

    def __init__(self) -> None:
        self._kind: type[TextPart | ThinkingPart] = TextPart
        self._pieces: list[str] = []

    def add(self, part: TextPart | ThinkingPart) -> Iterator[ModelEvent]:
        if type(part) is not self._kind:
            yield from self.end()
            self._kind = type(part)
        self._pieces.append(part.text)

    def end(self) -> Iterator[ModelEvent]:
        if self._pieces:
            yield self._kind("".join(self._pieces))
            self._pieces.clear()
