"""Finds the W3C trace context of a call, or begins one (Trace Context, Level 1: `traceparent`)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from typing import Final

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.trace_context import BITS, NAME
from manager.answers.exchange import Exchange

_HEADER: Final = NAME.encode()
_random_bits: Final = random.Random(os.urandom(32)).getrandbits  # noqa: S311  unique, not secret
made_number: Final[Callable[[], int]] = partial(_random_bits, BITS)
"""Draws the number of a new trace context (`trace_context.made`). Should it ever be 0, none is sent."""


def given(exchange: Exchange) -> str:
    """The `traceparent` that a call brought: in its `_meta`, else in its headers; empty if it has none."""
    own = exchange.inbound.meta.get(NAME)
    if own is not None:
        return jsonrpc.text_of(own) or ""
    sent = (value for name, value in exchange.passed_headers if name.lower() == _HEADER)
    return next(sent, b"").decode("latin-1")
