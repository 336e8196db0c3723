"""Copies an answer for the observer of calls. Used only for calls whose contents it wants."""

from __future__ import annotations

from collections.abc import Callable

from manager.call_observer import MAX_CONTENTS, CallDetails
from manager.forwarding.body_flow import Sink
from manager.forwarding.forwarded_call import ForwardedCall
from manager.upstream.response import Piece


def kept_of(call: ForwardedCall) -> CallDetails | None:
    """Where the copy of a call's answer goes; None if its contents are not observed."""
    details = call.details
    return None if details is None or details.result is None else details


def keep(details: CallDetails, piece: Piece) -> None:
    """Add a piece to the copy, up to `MAX_CONTENTS` bytes."""
    if details.result is not None:
        room = max(0, MAX_CONTENTS - len(details.result))
        details.result += piece[:room]
        details.is_cut = details.is_cut or len(piece) > room


class ContentTap:
    """A sink that passes each piece on, after it was copied."""

    __slots__ = ("_details", "_sink")

    def __init__(self, sink: Sink, details: CallDetails) -> None:
        self._sink = sink
        self._details = details

    def put(self, data: Piece) -> bool:
        """As the sink behind it."""
        keep(self._details, data)
        return self._sink.put(data)

    def when_writable(self, call: Callable[[], None]) -> None:
        """As the sink behind it."""
        self._sink.when_writable(call)
