"""Finds and makes the W3C trace context of a call (Trace Context, Level 1: `traceparent`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from manager.answers.exchange import Exchange
from protocol import jsonrpc

NAME: Final = "traceparent"
_HEADER: Final = NAME.encode()


def given(exchange: Exchange) -> str:
    """The `traceparent` that a call brought: in its `_meta`, else in its headers; empty if it has none."""
    own = exchange.inbound.meta.get(NAME)
    if own is not None:
        return jsonrpc.text_of(own) or ""
    sent = (value for name, value in exchange.passed_headers if name.lower() == _HEADER)
    return next(sent, b"").decode("latin-1")


def made(chance: Callable[[int], bytes] = os.urandom) -> str:
    """A new `traceparent`, sampled. `chance` returns so many random bytes."""
    return f"00-{chance(16).hex()}-{chance(8).hex()}-01"
