"""The protocol revisions we speak, and the two eras they belong to.

*Legacy* revisions have `initialize` and sessions; *modern* ones are stateless: every request carries its
own version and capabilities.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Era(Enum):
    """Which of the two families of MCP revisions a message belongs to."""

    LEGACY = "legacy"
    MODERN = "modern"


LEGACY_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_LEGACY: Final = LEGACY_REVISIONS[-1]
ASSUMED_LEGACY: Final = "2025-03-26"
"""What an absent `MCP-Protocol-Version` header means (2025-06-18, transports)."""
MODERN_REVISIONS: Final = ("2026-07-28",)
LATEST_MODERN: Final = MODERN_REVISIONS[-1]


def era_of(revision: str) -> Era | None:
    """The era of a revision, or None for one we do not speak."""
    if revision in LEGACY_REVISIONS:
        return Era.LEGACY
    return Era.MODERN if revision in MODERN_REVISIONS else None


def numbers_events(revision: str) -> bool:
    """Whether a legacy revision knows event ids, and streams that are taken up again by them."""
    return revision >= "2025-03-26"


def primes_streams(revision: str) -> bool:
    """Whether a legacy revision knows events without data, and `retry` (2025-11-25)."""
    return revision >= "2025-11-25"


def negotiate(requested: object) -> str:
    """The revision an `initialize` result names: the requested legacy one, else the latest."""
    return requested if isinstance(requested, str) and requested in LEGACY_REVISIONS else LATEST_LEGACY
