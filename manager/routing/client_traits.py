"""Chooses what of a client's profile is told to workspace servers, which know no clients. Pure."""

from __future__ import annotations

from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from manager.routing.client_profiles import ClientProfile


def leaves_its_folder(profile: ClientProfile) -> bool:
    """Whether its agents change their folder without a word, so that they need `callTool` to name it."""
    return profile.roots_change == "silently"


def client_traits(profile: ClientProfile) -> ClientTraits:
    """What is special about a client with this profile."""
    return ClientTraits(
        lists_once=profile.hears_list_changed != "always",
        own_tool_search=profile.own_tool_search,
        repeats_instructions=profile.repeats_instructions,
        has_call_tool=leaves_its_folder(profile),
    )
