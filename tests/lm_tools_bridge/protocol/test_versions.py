"""Tests of the protocol revisions, compared with the official list."""

from __future__ import annotations

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from lm_tools_bridge.protocol.versions import (
    ASSUMED_LEGACY,
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY_REVISIONS,
    MODERN_REVISIONS,
    Era,
    era_of,
    negotiate,
)


def test_the_revisions_are_those_of_the_official_package() -> None:
    assert tuple(HANDSHAKE_PROTOCOL_VERSIONS) == LEGACY_REVISIONS
    assert tuple(MODERN_PROTOCOL_VERSIONS) == MODERN_REVISIONS


def test_the_latest_are_the_latest_by_date() -> None:
    assert max(LEGACY_REVISIONS) == LATEST_LEGACY == "2025-11-25"
    assert max(MODERN_REVISIONS) == LATEST_MODERN == "2026-07-28"
    assert ASSUMED_LEGACY == "2025-03-26"


@pytest.mark.parametrize(
    ("revision", "era"),
    [
        *[(one, Era.LEGACY) for one in LEGACY_REVISIONS],
        *[(one, Era.MODERN) for one in MODERN_REVISIONS],
        *[(one, None) for one in ("", "2027-01-01", "1900-01-01", "2026-07-28 ", "draft")],
    ],
)
def test_a_revision_is_legacy_modern_or_unknown(revision: str, era: Era | None) -> None:
    assert era_of(revision) is era


@pytest.mark.parametrize("requested", LEGACY_REVISIONS)
def test_a_legacy_revision_is_accepted_in_initialize(requested: str) -> None:
    assert negotiate(requested) == requested


@pytest.mark.parametrize("requested", ["2026-07-28", "1900-01-01", "", None, 20251125, ["2025-06-18"]])
def test_anything_else_in_initialize_gets_the_latest_legacy_revision(requested: object) -> None:
    assert negotiate(requested) == "2025-11-25"
