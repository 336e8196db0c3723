"""Makes the W3C trace context (Trace Context, Level 1: `traceparent`) of calls whose clients sent none. Pure.

A made context follows from one number, so that recording it takes eight bytes.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "traceparent"
"""Its name in `_meta` and as a header."""
BEGIN: Final = b"00-"
END: Final = b"-01"
"""What is around trace id and span of a made context: version, and the flag that it is sampled."""
BITS: Final = 63
"""Of the number, which must be random and not 0: the last seven bytes of a trace id should be random
(Level 2), and a signed integer of SQLite has no more."""


def make_traceparent(number: int) -> bytes:
    """The sampled `traceparent` that follows from a random number of `BITS` bits.

    The span is its sixteen digits; the trace id is these, preceded by the same backwards.
    """
    span = number.to_bytes(8, "big").hex().encode()
    return b"".join((BEGIN, span[::-1], span, b"-", span, END))


def number_of(traceparent: str) -> int:
    """The number from which `make_traceparent` made it; 0 if it did not."""
    try:
        number = int(traceparent[36:52], 16)
    except ValueError:
        return 0
    is_number = 0 < number < 1 << BITS
    return number if is_number and make_traceparent(number).decode() == traceparent else 0


def is_made(traceparent: str) -> bool:
    """Whether `make_traceparent` made it: its span is then that of the call itself, not of a client."""
    return number_of(traceparent) != 0
