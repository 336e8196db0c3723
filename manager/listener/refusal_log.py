"""One line per second at most about what the door refused: an attacker must not be able to write our log."""

from __future__ import annotations

import time
from collections.abc import Callable

from manager.log import logger
from manager.routing.request_heads.admission import AdmissionRefusal

_log = logger()


class RefusalLog:
    """Counts refusals and reports them, the suppressed ones as a number. Never headers, paths or bodies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = float("-inf")
        self._suppressed = 0

    def note(self, refusal: AdmissionRefusal) -> None:
        """Report this refusal, or only count it when one was reported within the last second."""
        now = self._clock()
        if now < self._next:
            self._suppressed += 1
            return
        _log.info(
            "request refused", status=refusal.status, reason=refusal.reason, suppressed=self._suppressed
        )
        self._next = now + 1.0
        self._suppressed = 0
