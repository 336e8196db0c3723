"""Writes the headers that tell workspace servers what a client shows its model, and which names it takes.

A workspace server knows no clients; the manager knows them by their profiles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal.client_traits import OFFERED_LENGTH, NameRules
from manager.routing.client_profiles import ClientProfile

ENTRY_NAME: Final = "lm-tools-bridge"
"""The name of this program in clients' configurations, as `lmtb client add` writes it; clients do not send
theirs."""
_MODEL_SEES: Final = headers.MODEL_SEES.encode()
_TOOL_NAMES: Final = headers.TOOL_NAMES.encode()


@lru_cache(maxsize=256)  # as many as `ClientProfiles` keeps
def needs_of(profile: ClientProfile) -> tuple[tuple[bytes, bytes], ...]:
    """The headers for requests of clients with this profile; none for clients that nobody measured."""
    words: list[str] = [] if profile.model_sees == "unknown" else [profile.model_sees]
    if profile.has_code_mode:
        words.append("both")
    if profile.drops_links:
        words.append(headers.NO_LINKS)
    told = [(_MODEL_SEES, " ".join(words).encode())] if words else []
    if rules := name_rules_of(profile).value:
        told.append((_TOOL_NAMES, rules.encode()))
    return tuple(told)


def name_rules_of(profile: ClientProfile) -> NameRules:
    """What a client needs of names, of which its prefix leaves a part."""
    if not profile.measured or profile.longest_name is None:
        return NameRules(profile.separator)
    rest = profile.longest_name - len(profile.name_prefix.format(ENTRY_NAME))
    return NameRules(profile.separator, min(OFFERED_LENGTH, rest))
