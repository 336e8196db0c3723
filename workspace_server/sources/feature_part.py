"""Defines what a feature adds to the workspace server: sources, with their settings and what needs trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from workspace_server.config.feature_settings import FileT, SettingsPart, SettingsT

if TYPE_CHECKING:
    import msgspec

    from lm_tools_bridge.protocol.issues import Issue
    from workspace_server.source import Source
    from workspace_server.sources.builtin.kept_searches import KeptSearches
    from workspace_server.sources.dependencies import Dependencies
    from workspace_server.sources.mcp.lists.list_cache import ListCache
    from workspace_server.trust.item import TrustItem, Verdict


class Trust(Protocol):
    """What of some items, given by key and digest, the user trusts."""

    def __call__(self, digests: Mapping[str, str], /) -> Mapping[str, Verdict]:
        """See `TrustStore.verdicts`."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source that should exist: its key, the value it is made from, and the function that makes it.

    A source is replaced when its `spec` changes.
    """

    key: str
    spec: object
    make: Callable[[], Source]


@dataclass(frozen=True, slots=True)
class SourceWorld:
    """What sources of features are made from.

    Attributes:
        trusts: what of the project may run.
        searches: what all searches in the workspace share.
        shared: what features offer each other, by name; a feature that is not there offers nothing.
    """

    dependencies: Dependencies
    trusts: Trust
    searches: KeptSearches
    shared: dict[str, Any] = field(default_factory=dict)


class GuardedServer(NamedTuple):
    """A server whose definitions of tools may be held.

    Attributes:
        source: the id of its source.
        digest: of what the user trusted of its entry; empty for an entry of the user's own.
    """

    source: str
    digest: str = ""


class DefinitionGuard(Protocol):
    """Decides which definitions of a server's tools are offered."""

    def bind(self, cache: ListCache, key: str, settle_again: Callable[[], None]) -> None:
        """Called once, before `settle`.

        Args:
            cache: of the lists of the server.
            key: the key of the list of its tools.
            settle_again: has the last list settled again; to be called in the event loop.
        """

    def settle(
        self, entries: Sequence[msgspec.Raw], version: str
    ) -> tuple[Sequence[msgspec.Raw], Sequence[Issue]]:
        """The definitions to offer of those that the server listed, and issues. Blocks.

        Args:
            entries: each a tool object as JSON text.
            version: what the server calls its version; empty if that is not known.
        """


class NeedsTrust(NamedTuple):
    """What of a project needs trust before a feature uses it, and the issues of its other files."""

    items: Sequence[TrustItem] = ()
    issues: Sequence[Issue] = ()


class FeaturePart(SettingsPart[FileT, SettingsT]):
    """What a feature adds. A feature overrides what it needs.

    Attributes:
        trust_prefix: the beginning of the keys of its trust items, if its sources are made anew when the user
            trusts one or no longer does.
        transient_prefix: the beginning of the keys of trust items that end by themselves: nothing has to be
            decided when one that was trusted is gone.
    """

    trust_prefix: str = ""
    transient_prefix: str = ""

    def sources(
        self, settings: SettingsT, world: SourceWorld, trusted: frozenset[tuple[str, str]]
    ) -> Iterator[SourceSpec]:
        """Its sources, in order.

        Args:
            trusted: key and digest of the items with its `trust_prefix` that were trusted.
        """
        yield from ()

    def guards(self, settings: SettingsT, source: str) -> bool:
        """Whether it guards the server with this id of its source, which is made anew when that changes."""
        return False

    def guard(self, settings: SettingsT, world: SourceWorld, server: GuardedServer) -> DefinitionGuard | None:
        """The guard of a server, if there is to be one. The first feature that has one guards it."""
        return None

    def may_start_programs(self, root: Path, settings: SettingsT) -> bool:
        """Whether a program may need trust, which the PATH of the login shell leads to: it is slow to ask."""
        return False

    def needs_trust(
        self, root: Path, settings: SettingsT, search: str, *, state_dir: Path | None, starts_programs: bool
    ) -> NeedsTrust:
        """What needs trust. Runs nothing.

        Args:
            root: the project's folder.
            search: the PATH.
            state_dir: the user's state folder, if what lies there counts.
            starts_programs: what `may_start_programs` said.
        """
        return NeedsTrust()
