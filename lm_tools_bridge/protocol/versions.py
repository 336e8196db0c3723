"""The supported MCP revisions: legacy ones with sessions, and modern, stateless ones.

Legacy revisions (up to 2025-11-25) have `initialize` and sessions. In modern revisions (from 2026-07-28)
every request carries its own version and capabilities.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Era(Enum):
    """The family of MCP revisions that a message belongs to."""

    LEGACY = "legacy"
    MODERN = "modern"


LEGACY_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY: Final = LEGACY_REVISIONS[-1]
ASSUMED_LEGACY: Final = "2025-03-26"
"""The revision of a request without `MCP-Protocol-Version` (MCP 2025-06-18, Transports)."""
MODERN_REVISIONS: Final = ("2026-07-28",)
LATEST_MODERN: Final = MODERN_REVISIONS[-1]


def era_of(revision: str) -> Era | None:
    """The era of a revision; None for an unsupported one."""
    if revision in LEGACY_REVISIONS:
        return Era.LEGACY
    return Era.MODERN if revision in MODERN_REVISIONS else None


def numbers_events(revision: str) -> bool:
    """Whether a legacy revision has event ids and resumable streams."""
    return revision >= "2025-03-26"


def primes_streams(revision: str) -> bool:
    """Whether a legacy revision has priming events and `retry` (MCP 2025-11-25, Transports)."""
    return revision >= "2025-11-25"


def negotiate(requested: object) -> str:
    """The revision for an `initialize` result: the requested legacy revision, else the latest legacy one."""
    return requested if isinstance(requested, str) and requested in LEGACY_REVISIONS else LATEST_LEGACY
