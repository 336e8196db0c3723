"""Keeps a copy of an answer for the recorder. Used only for calls whose contents are recorded."""

from __future__ import annotations

from collections.abc import Callable

from lm_tools_bridge.recorder.stored_contents import capture
from manager.call_observer import CallDetails
from manager.forwarding.body_flow import Sink
from manager.forwarding.forwarded_call import ForwardedCall
from manager.upstream.response import Piece


def kept_of(call: ForwardedCall) -> CallDetails | None:
    """Where the copy of a call's answer goes; None if its contents are not recorded."""
    details = call.details
    return None if details is None or details.result is None else details


def keep(details: CallDetails, piece: Piece) -> None:
    """Add a piece to the copy, which has a limit."""
    if details.result is not None and not capture(details.result, piece):
        details.is_cut = True


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
