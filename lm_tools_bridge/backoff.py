"""Computes exponential back-off with jitter. Pure: the random number is an argument."""

from __future__ import annotations

from typing import Final

# A server that ended by accident is back before a person notices; one that cannot start is tried about twice
# a minute; a quarter of chance keeps those that failed together from trying together.
FIRST_S: Final = 0.5
LONGEST_S: Final = 30.0
JITTER: Final = 0.25
_DOUBLINGS: Final = 32
"""More doublings than this exceed any limit in use, and would overflow a float in the end."""


def backoff(attempt: int, chance: float, *, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> float:
    """Seconds to wait before the next try: `first_s`, doubled with each failure up to `longest_s`, ±25 %.

    Args:
        attempt: how many tries failed in a row, from 1.
        chance: a random number in [0, 1) that spreads the pause; 0.5 spreads nothing.
        first_s: the pause after the first failure, in seconds.
        longest_s: the limit of the pause in seconds, before it is spread.
    """
    plain = min(first_s * 2.0 ** min(attempt - 1, _DOUBLINGS), longest_s)
    return plain * (1 - JITTER + 2 * JITTER * chance)
