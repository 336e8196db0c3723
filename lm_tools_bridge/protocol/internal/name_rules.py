"""Name rules: what a client needs of the names of tools, as the manager tells it to workspace servers.

The header `headers.TOOL_NAMES` carries them, such as `separator=_, longest=43`. Without it, names stay as
they are offered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

SEPARATOR: Final = "__"
"""What stands between namespace and name in the names that workspace servers offer."""
OFFERED_LENGTH: Final = 64
"""The longest name that a workspace server offers; a client that takes names of this length has no rule."""
SHORTEST_LIMIT: Final = 24
"""Smaller limits are not kept: 9 characters tell shortened names apart, the others have to mean something."""
_WORDS: Final = re.compile(r"(?:separator=(_))?(?:, )?(?:longest=([0-9]{2,3}))?")


class NameRules(NamedTuple):
    """What a client needs of the names of tools.

    Attributes:
        separator: `_` if it leaves out names with `__`, else `__`.
        longest: how many characters a name may have at most.
    """

    separator: str = SEPARATOR
    longest: int = OFFERED_LENGTH

    @property
    def value(self) -> str:
        """The value of the header; empty for names as they are offered."""
        words = [f"separator={self.separator}"] if self.separator != SEPARATOR else []
        if self.longest < OFFERED_LENGTH:
            words.append(f"longest={max(self.longest, SHORTEST_LIMIT)}")
        return ", ".join(words)


AS_OFFERED: Final = NameRules()


@lru_cache(maxsize=64)  # there are as many values as kinds of clients
def from_header(value: str) -> NameRules:
    """Parse the value of the header; `AS_OFFERED` if it is empty or invalid."""
    match = _WORDS.fullmatch(value)
    if match is None:
        return AS_OFFERED
    longest = OFFERED_LENGTH if match[2] is None else min(OFFERED_LENGTH, int(match[2]))
    return NameRules(match[1] or SEPARATOR, max(SHORTEST_LIMIT, longest))
