"""Tests of names on the wire that other programs depend on."""

from __future__ import annotations

import re

import mcp_types
import pytest
from mcp.shared.inbound import NAME_BEARING_METHODS
from mcp_types import methods
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.names import (
    ASSUMED_LEGACY,
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY_REVISIONS,
    MODERN_REVISIONS,
    Era,
    era_of,
    negotiate,
)

NOTIFICATIONS = {
    names.INITIALIZED,
    names.CANCELLED,
    names.PROGRESS,
    names.ACKNOWLEDGED,
    names.TOOLS_CHANGED,
    names.RESOURCES_CHANGED,
    names.PROMPTS_CHANGED,
}


def test_meta_keys_are_the_official_ones() -> None:
    assert names.META_VERSION == mcp_types.PROTOCOL_VERSION_META_KEY
    assert names.META_CAPABILITIES == mcp_types.CLIENT_CAPABILITIES_META_KEY
    assert names.META_CLIENT == mcp_types.CLIENT_INFO_META_KEY


def test_every_method_exists_in_the_official_registry() -> None:
    official = {method for method, _ in [*methods.CLIENT_REQUESTS, *methods.SERVER_REQUESTS]}
    official |= {method for method, _ in [*methods.CLIENT_NOTIFICATIONS, *methods.SERVER_NOTIFICATIONS]}
    ours = {
        value
        for name, value in vars(names).items()
        if isinstance(value, str)
        and name.isupper()
        and re.fullmatch(r"[a-z]+(/[A-Za-z_]+)+|initialize|ping", value)
        and not name.startswith(("META_", "CODEX_"))
    }
    assert {"tools/call", "initialize", "subscriptions/listen"} <= ours
    assert ours - official == set()


def test_methods_removed_by_2026_07_28_are_not_in_its_registry() -> None:
    modern = {method for method, version in methods.CLIENT_REQUESTS if version == "2026-07-28"}
    assert modern & names.LEGACY_ONLY == set()
    assert {names.TOOLS_CALL, names.DISCOVER, names.LISTEN} <= modern


def test_named_parameters_are_those_of_the_specification() -> None:
    """Those of the official table, and of the three methods of the tasks extension."""
    tasks = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
    assert {**NAME_BEARING_METHODS, **tasks} == names.NAMED_PARAM


@pytest.mark.parametrize("full", [names.HANDSHAKE, names.CALL_TOOL])
def test_the_bare_name_of_a_manager_tool_is_its_last_part(full: str) -> None:
    prefix, _, bare = full.partition(".")
    assert prefix == "lmToolsBridge"
    assert {full, bare, f"{prefix}_{bare}"} <= names.MANAGER_TOOL_NAMES


def test_handshake_and_call_tool_have_distinct_names() -> None:
    assert not names.HANDSHAKE_NAMES & names.CALL_TOOL_NAMES
    assert len(names.MANAGER_TOOL_NAMES) == 8


def test_templates_extend_the_uris_of_their_resources() -> None:
    assert names.TEMPLATE_TOOL == names.URI_TOOL + "{name}"
    assert names.TEMPLATE_SCHEMA == names.URI_SCHEMA + "{name}"


@pytest.mark.parametrize("key", [names.META_ISSUES, names.META_ERROR])
def test_own_meta_keys_use_no_reserved_prefix(key: str) -> None:
    """A second label `modelcontextprotocol` or `mcp` is reserved (MCP: General fields, `_meta`)."""
    prefix, _, name = key.partition("/")
    assert name
    assert prefix.split(".")[1:2] not in (["modelcontextprotocol"], ["mcp"])


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
