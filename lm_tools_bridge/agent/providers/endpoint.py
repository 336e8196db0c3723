"""Defines where a provider is, which key it wants, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass

from yarl import URL

from lm_tools_bridge.agent.keys.lookup import KeyWish


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider is.

    Attributes:
        name: the provider's name.
        kind: its dialect's name.
        base: its address, without a path of the dialect.
        key: which key it wants; `needs_key` tells whether it cannot do without.
        key_hint: what a person does to give it a key.
    """

    name: str
    kind: str
    base: str
    key: KeyWish
    needs_key: bool
    key_hint: str

    @property
    def shown_base(self) -> str:
        """The address as it may be shown."""
        url = URL(self.base)
        return str(url.with_user(None).with_query(None)).rstrip("/") if url.absolute else self.base


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Longest times in seconds: to connect, until a streamed reply begins, and of the whole reply."""

    connect_s: float = 5
    first_byte_s: float = 60
    answer_s: float = 300
