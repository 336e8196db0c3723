"""Defines keys of providers and their names, and looks them up: the first place that has one wins. Pure.

The value of a key stands in no `repr`, message or log line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lm_tools_bridge.text import redaction

_ALSO: Final = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "azure": ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
}
_UNSTORED: Final = frozenset({"ollama"})
"""Providers that need no key; a lookup in the store would only cost time."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key.

    Attributes:
        value: the key itself.
        source: the kind of place: `environment`, `dotenv` or `store`.
        source_detail: the place: a variable, a file and variable, or a name in the store.
    """

    value: str = field(repr=False)
    source: str
    source_detail: str

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True, slots=True)
class KeyWish:
    """The names of one key: variables in their order, and names in the store.

    `may_wait`: the key is worth waiting a moment for a store that is about to open.
    """

    variables: tuple[str, ...]
    stored: tuple[str, ...]
    may_wait: bool = True


@dataclass(frozen=True, slots=True)
class KeyFound:
    """What a search gave: the key, if there is one, and which places could not be read and why."""

    key: Key | None = None
    problems: tuple[str, ...] = ()


class StoreReadOnly(Exception):
    """A key cannot be stored there."""

    def __init__(self) -> None:
        super().__init__("Store is read-only")


class KeySourceFailed(Exception):
    """A place of keys cannot be read or written; the message says why and what to do."""


class KeySource(Protocol):
    """One place of keys."""

    async def find(self, wish: KeyWish) -> Key | None:
        """The key, if it is here. Raises KeySourceFailed."""
        ...

    async def store(self, name: str, value: str) -> None:
        """Store a key. Raises StoreReadOnly or KeySourceFailed."""
        ...


def wish_for(provider: str, key_name: str | None = None) -> KeyWish:
    """The names of a provider's key.

    Args:
        provider: the provider's name, in any case.
        key_name: the configured name, which takes the place of all others.
    """
    if key_name:
        return KeyWish((key_name,), (key_name,))
    name = provider.lower()
    usual = (f"{name.upper().replace('-', '_')}_API_KEY",)
    stored = ("gemini", "google") if name in {"gemini", "google"} else () if name in _UNSTORED else (name,)
    return KeyWish(_ALSO.get(name, usual), tuple(sorted(stored, key=lambda candidate: candidate != name)))


def hint_for(wish: KeyWish) -> str:
    """What a person does to give a provider its key."""
    stored = f", or store it with: lmtb secrets set {wish.stored[0]}" if wish.stored else ""
    return f"set {wish.variables[0]}{stored}"


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
