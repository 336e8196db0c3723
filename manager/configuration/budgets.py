"""Fixed budgets of the manager: bytes, look-ups and entries that all its clients share. Pure.

Those that a user can set are in `settings.py`. Bounds of one format or message stay beside what reads it. All
budgets are listed in docs/operations.md, with what happens at each, and a test compares them.
"""

from __future__ import annotations

from typing import Final

# Bytes of the units in which the budgets are written.
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

MAX_REQUEST_HEAD: Final = 16 * _KIB
"""Bytes of a request's head."""

MAX_RUNNING_LOOKUPS: Final = 32
"""Look-ups of folders that run at a time, in each of two shares: folders known to be quick, and others."""
MAX_HANGING_LOOKUPS: Final = 128
"""Look-ups that hang, in each share. Together both keep the wait for a thread at 1 s when all hang."""

# Bounds what one session holds for a client that may never reconnect; the oldest are dropped first.
MAX_SESSION_EVENTS: Final = 256
MAX_SESSION_EVENT_BYTES: Final = _MIB
"""Events and bytes that are kept for one session that may resume."""
MAX_ALL_EVENT_BYTES: Final = 64 * _MIB
"""Bytes of events that are kept for all sessions."""

MAX_ROUTES: Final = 4096
"""Remembered calls: one like them is sent at once. Each keeps the call that it was made from."""
MAX_ANSWER_HEADS: Final = 256
"""Heads of answers that are remembered."""

MAX_UNRECORDED_CALLS: Final = 50_000
"""Ended calls that wait to be recorded; when a disk hangs, the oldest are lost."""
MAX_UNSAVED_BYTES: Final = 64 * _MIB
"""The largest file of writes that the state did not take; ten thousand sessions need about 5 MB."""
MAX_LOG_BYTES: Final = 4 * _MIB
"""Bytes of one log; two files of a log together are hardly ever longer than twice this."""
MAX_FREED_BYTES: Final = 8 * _MIB
"""Bytes of freed memory that the process keeps for the next large bodies."""
