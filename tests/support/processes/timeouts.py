"""How long a test waits for what a contract row promises within a time.

The rows speak of an idle machine; a test shares two cores with other tests and must not fail for their sake.
What it shows is the reason for the promise: that an event woke somebody up and no longer timer ran out.
"""

from __future__ import annotations

from typing import Final

SLACK: Final = 4


def within(seconds: float) -> float:
    """The bound a test holds a promised time to. It stays below the timers a test must tell apart."""
    return seconds * SLACK
