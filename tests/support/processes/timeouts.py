"""How long tests wait for something that is promised within a time.

The promised times hold on an idle machine; tests share two cores with other tests. What a test shows is the cause:
an event woke somebody up, rather than a longer timer running out.
"""

from __future__ import annotations

from typing import Final

GUARD_S: Final = 60.0
"""The last guard of a wait for something that surely happens: it only keeps a broken test from hanging."""
SLACK: Final = 4


def within(seconds: float) -> float:
    """The bound a test holds a promised time to. It stays below the timers a test must tell apart."""
    return seconds * SLACK
