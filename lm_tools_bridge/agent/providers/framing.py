"""Splits the bytes of a reply into JSON documents, and joins the text that arrives together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from lm_tools_bridge.agent.messages import ModelEvent, TextPart, ThinkingPart
from lm_tools_bridge.agent.providers.dialects.dialect import ReplyError
from lm_tools_bridge.protocol.sse import Decoder, EventTooLarge


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


LARGEST: Final = 32 * 1024 * 1024
"""Bytes of one document."""
Form = Literal["sse", "lines", "whole"]


class Documents:
    """Splits one reply."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._events = Decoder(LARGEST)
        self._partial: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The documents that these bytes complete. Raises ReplyError if one is too large."""
        if self._form == "sse":
            try:
                return [event.data for event in self._events.feed(chunk)]
            except EventTooLarge:
                raise _too_large() from None
        documents: list[bytes] = []
        if self._form == "lines" and b"\n" in chunk:
            *lines, chunk = b"".join([*self._partial, chunk]).split(b"\n")
            self._partial, self._size = [], 0
            documents = [line for line in lines if line.strip()]
        self._partial.append(chunk)
        self._size += len(chunk)
        if self._size > LARGEST:
            raise _too_large()
        return documents

    def end(self) -> list[bytes]:
        """The last document, if the reply did not end it."""
        if self._form == "sse":
            return [event.data for event in self._events.feed(b"\n\n")]
        remainder = b"".join(self._partial).strip()
        self._partial, self._size = [], 0
        return [remainder] if remainder or self._form == "whole" else []


def _too_large() -> ReplyError:
    return ReplyError(f"a part of the reply is larger than {LARGEST // 1024 // 1024} MiB")
