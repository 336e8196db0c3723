"""Logs refused requests, at most once a second, so that an attacker cannot fill the log."""

from __future__ import annotations

import time
from collections.abc import Callable

from manager.logs.log import logger
from manager.routing.request_heads.admission import AdmissionRefusal

_log = logger()


class RefusalLog:
    """Logs refusals with the number of suppressed ones; never headers, paths or bodies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")
        self._suppressed = 0

    def note(self, refusal: AdmissionRefusal) -> None:
        """Log a refusal, or count it if one was logged within the last second."""
        now = self._clock()
        if now < self._next:
            self._suppressed += 1
            return
        _log.info(
            "request refused", status=refusal.status, reason=refusal.reason, suppressed=self._suppressed
        )
        self._next = now + 1.0
        self._suppressed = 0
