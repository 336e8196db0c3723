"""Client traits: what the manager knows of a client, where it changes what a workspace server lists or says.

They travel in one request header, as the words of the traits that hold. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ClientTraits(NamedTuple):
    """What is special about one client. Nothing is, by default.

    Attributes:
        lists_once: whether it may never learn of tools that come after its first list.
        own_tool_search: whether its own tool is named `tool_search`.
        repeats_instructions: whether it shows a server's instructions to its model with each of its tools.
        has_call_tool: whether the manager's `lmToolsBridge.callTool` is in its list.
    """

    lists_once: bool = False
    own_tool_search: bool = False
    repeats_instructions: bool = False
    has_call_tool: bool = False

    def encode(self) -> str:
        """The value of the header; empty if nothing is special."""
        return ",".join(_WORDS[name] for name, holds in self._asdict().items() if holds)

    @classmethod
    def decode(cls, value: str) -> ClientTraits:
        """The traits that the header's value names. Unknown words, of a newer manager, are left out."""
        words = {word.strip() for word in value.split(",")}
        return cls(**{name: word in words for name, word in _WORDS.items()})


_WORDS: Final = {name: name.replace("_", "-") for name in ClientTraits._fields}
"""Trait -> its word in the header."""
