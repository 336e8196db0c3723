"""What the manager tells workspace servers of a client: its traits, its name rules, its own servers.

They travel in one request header, as the words of the traits that hold. Pure.

The header `headers.TOOL_NAMES` carries them, such as `separator=_, longest=43`. Without it, names stay as
they are offered.

They travel in one request header: the files, separated by commas, each followed by `;-NAME` for servers that
the client does not start, or by `;+NAME` for the only ones that it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAMES: Final = 100
"""Names that one header may have: a client with more exceptions is taken to start none of them."""


class OwnServers(NamedTuple):
    """Servers of one file of a project that a client starts itself.

    Attributes:
        file: the file, relative to the project's root.
        names: namespaces of servers.
        is_all_but: whether it starts all servers of the file but these, instead of only these.
    """

    file: str
    names: frozenset[str] = frozenset()
    is_all_but: bool = True

    def starts(self, file: str | None, namespace: str) -> bool:
        """Whether the client starts the server that this file configures."""
        return file == self.file and (namespace in self.names) is not self.is_all_but


def namespace_of(name: str) -> str:
    """The namespace that a workspace server gives to an entry of this name."""
    return _UNFIT.sub("_", name.strip())


def encode(own_servers: Iterable[OwnServers]) -> str:
    """The value of the header; empty for none."""
    return ",".join(_encoded(entry) for entry in own_servers if entry.is_all_but or entry.names)


def _encoded(entry: OwnServers) -> str:
    if len(entry.names) > _MAX_NAMES:
        return f"{entry.file};+"
    sign = "-" if entry.is_all_but else "+"
    return ";".join([entry.file, *(f"{sign}{name}" for name in sorted(entry.names))])


def decode(value: str) -> tuple[OwnServers, ...]:
    """The own servers that the header's value names."""
    return tuple(_decoded(part) for part in value.split(",") if part.strip())


def _decoded(part: str) -> OwnServers:
    file, *words = (word.strip() for word in part.split(";"))
    names = frozenset(word[1:] for word in words if word[1:])
    return OwnServers(file, names, is_all_but=not any(word.startswith("+") for word in words))


SEPARATOR: Final = "__"
"""What stands between namespace and name in the names that workspace servers offer."""
OFFERED_LENGTH: Final = 64
"""The longest name that a workspace server offers; a client that takes names of this length has no rule."""
SHORTEST_LIMIT: Final = 24
"""Smaller limits are not kept: 9 characters tell shortened names apart, the others have to mean something."""
_NAME_RULES_WORDS: Final = re.compile(r"(?:separator=(_))?(?:, )?(?:longest=([0-9]{2,3}))?")


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
    match = _NAME_RULES_WORDS.fullmatch(value)
    if match is None:
        return AS_OFFERED
    longest = OFFERED_LENGTH if match[2] is None else min(OFFERED_LENGTH, int(match[2]))
    return NameRules(match[1] or SEPARATOR, max(SHORTEST_LIMIT, longest))


class ClientTraits(NamedTuple):
    """What is special about one client. Nothing is, by default.

    Attributes:
        lists_once: whether it may never learn of tools that come after its first list.
        own_tool_search: whether its own tool is named `tool_search`.
        repeats_instructions: whether it shows a server's instructions to its model with each of its tools.
        has_call_tool: whether the manager's `lmToolsBridge.callTool` is in its list.
        has_file_tools: whether its model reads and searches files, and runs commands, with the client's own
            tools: the built-in tools would only cost it tokens.
    """

    lists_once: bool = False
    own_tool_search: bool = False
    repeats_instructions: bool = False
    has_call_tool: bool = False
    has_file_tools: bool = False

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
