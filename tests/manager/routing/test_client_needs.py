"""Workspace servers are told what measured clients show to their models, and which names these take."""

from __future__ import annotations

import pytest

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.protocol import headers
from manager.routing import client_needs
from manager.routing.client_needs import needs_of
from manager.routing.client_profiles import OTHER, PROFILES, ClientProfile, ClientProfiles, profile_of


def told(name: str) -> dict[str, str]:
    return {header.decode(): value.decode() for header, value in needs_of(profile_of(name))}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-code", "structured"),
        ("codex-mcp-client", "structured both"),
        ("gemini-cli-mcp-client", "text"),
        ("opencode", "text no-links"),
        ("copilot-cli", "both no-links"),
        ("@cline/core", "both"),
        ("qwen-cli-mcp-client-lm-tools-bridge", "both"),
        ("continue-cli-client", "text"),
        ("grok-shell-lm-tools-bridge", None),
        ("Visual Studio Code", None),
        ("somebody", None),
    ],
)
def test_what_the_model_of_a_measured_client_sees_is_told(name: str, words: str | None) -> None:
    assert told(name).get(headers.MODEL_SEES) == words


@pytest.mark.parametrize("profile", (*PROFILES, OTHER), ids=lambda profile: str(profile.title))
def test_only_measured_clients_are_said_to_miss_a_part_of_results(profile: ClientProfile) -> None:
    assert profile.measured or headers.MODEL_SEES.encode() not in dict(needs_of(profile))


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("gemini-cli-mcp-client", "longest=43"),
        ("grok-shell-lm-tools-bridge", "separator=_, longest=47"),
        ("@cline/core", "longest=47"),
        ("claude-code", None),
        ("codex-mcp-client", None),
        ("opencode", None),
        ("continue-cli-client", None),
        ("cursor", None),
        ("somebody", None),
    ],
)
def test_names_are_changed_for_measured_clients_that_do_not_take_the_offered_ones(
    name: str, rules: str | None
) -> None:
    assert told(name).get(headers.TOOL_NAMES) == rules


def test_what_a_user_says_of_a_client_counts() -> None:
    profiles = ClientProfiles({"model_sees": {"mine": "text", "opencode": "both"}})
    assert dict(needs_of(profiles.of("mine"))) == {headers.MODEL_SEES.encode(): b"text"}
    assert dict(needs_of(profiles.of("opencode")))[headers.MODEL_SEES.encode()] == b"both no-links"


def test_the_prefix_is_made_of_the_name_that_client_files_get() -> None:
    assert client_needs.ENTRY_NAME == ENTRY_NAME
