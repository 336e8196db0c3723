"""Looks up keys in the configured places, the first that has one wins."""

from __future__ import annotations

from collections.abc import Sequence

from lm_tools_bridge.agent.keys.key import Key, KeyFound, KeySource, KeySourceFailed, KeyWish
from lm_tools_bridge.text import redaction

__all__ = ["Key", "KeyFound", "KeyLookup", "KeyWish"]


class KeyLookup:
    """The places of keys in their order. What is found is hidden in every log line from then on."""

    def __init__(self, sources: Sequence[KeySource]) -> None:
        self._sources = tuple(sources)

    async def find(self, wish: KeyWish) -> KeyFound:
        """The key from the first place that has it. A place that cannot be read is passed over, and told."""
        problems: list[str] = []
        for source in self._sources if wish.variables or wish.stored else ():
            try:
                key = await source.find(wish)
            except KeySourceFailed as error:
                problems.append(str(error))
                continue
            if key is not None:
                redaction.hide(key.value)
                return KeyFound(key, tuple(problems))
        return KeyFound(None, tuple(problems))
