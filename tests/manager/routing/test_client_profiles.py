"""The table of clients: how a client is found, and how long its lists may wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.protocol import headers
from manager.configuration.settings import Settings, by_client
from manager.routing import client_profiles
from manager.routing.client_profiles import (
    LATER_LIST_S,
    OTHER,
    PROFILES,
    ClientProfile,
    ClientProfiles,
    discover_wait_s,
    list_wait_s,
    needs_of,
    profile_of,
)

PAGE = Path(__file__).parents[3] / "docs/build/profiles.md"


def seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:g} s"


def as_row(profile: ClientProfile) -> str:
    """The row of a client in the documentation."""
    cells = (
        profile.title,
        profile.measured or "assumed",
        seconds(profile.first_list_s),
        profile.hears_list_changed,
        seconds(profile.silent_call_s),
        seconds(profile.silent_stream_s),
        "yes" if profile.is_extended_by_progress else "no",
        profile.model_sees + (", in code both" if profile.has_code_mode else ""),
        "none" if profile.longest_name is None else str(profile.longest_name),
        f"`{profile.name_prefix}`" if profile.name_prefix else "none",
        "yes" if profile.reads_all_pages else "first only",
        "yes" if profile.has_file_tools else "no",
        ", ".join(f"`{file}`" for file in profile.own_files) or "none",
    )
    return f"| {' | '.join(cells)} |"


SEARCHED = {
    "nothing": "behind a search",
    "names": "behind a search, names at once",
    "beginnings": "behind a search, names and beginnings at once",
}


def as_second_row(profile: ClientProfile) -> str:
    """The row of a client in the documentation's second table."""
    cells = (
        profile.title,
        SEARCHED[profile.deferred_as] if profile.defers_tools else "at once",
        "yes" if profile.own_tool_search else "no",
        "with each tool" if profile.repeats_instructions else "once",
        f"`{profile.separator}`",
        "unchanged" if profile.plain_names else "made valid",
        "dropped" if profile.drops_links else "shown",
        profile.roots_change,
    )
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("profile", [*PROFILES, OTHER], ids=lambda profile: profile.title)
def test_the_page_of_the_profiles_shows_both_tables(profile: ClientProfile) -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    assert as_row(profile) in lines
    assert as_second_row(profile) in lines


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("claude-code", "Claude Code"),
        ("codex-mcp-client", "Codex"),
        ("gemini-cli-mcp-client", "Gemini CLI"),
        ("opencode", "opencode"),
        ("Visual Studio Code - Insiders", "VS Code"),
        ("cursor-vscode", "Cursor"),
        ("copilot-cli", "Copilot CLI"),
        ("qwen-cli-mcp-client-lm-tools-bridge", "Qwen Code"),
        ("kilo", "Kilo"),
        ("@cline/core", "Cline"),
        ("continue-cli-client", "Continue"),
        ("grok-shell-lm-tools-bridge", "Grok Build"),
        ("somebody", "other clients"),
        (None, "other clients"),
    ],
)
def test_a_client_is_found_by_its_name(name: str | None, title: str) -> None:
    assert profile_of(name).title == title


def test_a_user_can_set_how_long_a_client_waits() -> None:
    profiles = ClientProfiles({"first_list_s": {"opencode": 3.0, "c*x": 4.0, "*": 5.0}})
    assert [profiles.of(name).first_list_s for name in ("OpenCode", "codex", "mine", None)] == [3, 4, 5, 5]
    assert ClientProfiles({"first_list_s": {"codex": 3.0}}).of("opencode") == profile_of("opencode")


def test_a_user_can_set_it_for_some_versions_only() -> None:
    own = {"own*": 1.0, "own-agent": 2.0, "own-agent@2.*": 3.0, "*": 4.0}
    profiles = ClientProfiles({"first_list_s": own})
    asked = [
        ("own-agent", "2.1"),
        ("own-agent", "3.0"),
        ("own-agent", None),
        ("owner", "2.1"),
        ("mine", "2.1"),
    ]
    assert [profiles.of(*one).first_list_s for one in asked] == [3, 2, 2, 1, 4]


def test_a_name_may_begin_with_the_sign_in_front_of_versions() -> None:
    own = {"@own/agent": 2.0, "@own/agent@2.*": 3.0, "*": 4.0}
    profiles = ClientProfiles({"first_list_s": own})
    asked = [("@own/agent", "2.1"), ("@own/agent", "3.0"), ("own/agent", "2.1")]
    assert [profiles.of(*client).first_list_s for client in asked] == [3, 2, 4]


def test_every_value_that_a_user_may_set_counts() -> None:
    settings = Settings(
        first_list_s="a=3",
        model_sees="a=both",
        hears_list_changed="a=never",
        own_files="a=.mcp.json .cursor/mcp.json",
        has_file_tools="a=yes",
    )
    found = ClientProfiles(by_client(settings)).of("a", "1")
    assert found == OTHER._replace(
        first_list_s=3,
        model_sees="both",
        hears_list_changed="never",
        own_files=(".mcp.json", ".cursor/mcp.json"),
        has_file_tools=True,
    )
    assert ClientProfiles(by_client(Settings(own_files="claude-code=none"))).of("claude-code").own_files == ()


@pytest.mark.parametrize(
    ("budget", "since", "wait"),
    [
        (0.9, 0.3, 0.6),
        (0.9, 0.85, 0.1),
        (0.9, 60.0, 0.9),
        (50, 1.0, 49.0),
        (50, 60.0, LATER_LIST_S),
        (1.8, None, 0.9),
    ],
)
def test_a_list_waits_for_what_is_left_of_the_clients_start(
    budget: float, since: float | None, wait: float
) -> None:
    assert list_wait_s(budget, since) == pytest.approx(wait)


@pytest.mark.parametrize(("budget", "wait"), [(0.9, 0.45), (1.8, 0.9), (25, 2.0)])
def test_the_greeting_takes_half_the_time_at_most(budget: float, wait: float) -> None:
    assert discover_wait_s(budget) == pytest.approx(wait)


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
    assert client_profiles.ENTRY_NAME == ENTRY_NAME
