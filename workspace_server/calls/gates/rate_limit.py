"""Limits how often a tool may be called: one token bucket per tool and calling program. Pure.

`Tool.rate_limited` says which tools are limited.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.token_bucket import TokenBucket

MAX_BUCKETS: Final = 4096


class RateLimiter:
    """Token buckets.

    Args:
        per_s: sustained calls per second.
        burst: calls that may be made at once after a pause.
    """

    def __init__(self, per_s: float = 5.0, burst: int = 20) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()

    def wait(self, tool: str, client: str, now: float) -> float:
        """Seconds until a call may be made, 0.0 if it may be made now. Takes nothing.

        Args:
            tool: the tool's offered name.
            client: the calling program's name.
            now: monotonic seconds.
        """
        return self._bucket(tool, client, now).wait_s(now)

    def take(self, tool: str, client: str, now: float) -> None:
        """Count one call."""
        bucket = self._bucket(tool, client, now)
        bucket.left(now)
        bucket.spend()

    def _bucket(self, tool: str, client: str, now: float) -> TokenBucket:
        key = (tool, client)
        bucket = self._buckets.setdefault(key, TokenBucket(self._per_s, self._burst, now))
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)  # unused for longest, so most likely full again
        return bucket


def refusal(name: str, wait_s: float) -> Refusal:
    """The refusal for a caller who has to wait."""
    text = f"{name} is rate limited, retry after {max(1, math.ceil(wait_s))} s"
    return Refusal(Reason.OVERLOADED, text, delivered="no", retry_after_ms=math.ceil(wait_s * 1000))
