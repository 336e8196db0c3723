"""Adds pinned definitions to the workspace server: guards of servers, settings, and items of trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakSet

from workspace_server.config.feature_settings import FileTables
from workspace_server.config.formats.fields import ConfigValueError, Fields, choice
from workspace_server.sources.feature_part import (
    DefinitionGuard,
    FeaturePart,
    GuardedServer,
    NeedsTrust,
    SourceSpec,
    SourceWorld,
)

if TYPE_CHECKING:
    from lm_tools_bridge.pinned_definitions.guard import PinnedGuard
    from lm_tools_bridge.pinned_definitions.pins import Mode

_SHARED: Final = "pinned_definitions"
"""The name of the guards in `SourceWorld.shared`."""
_PREFIX: Final = "definitions:"


class DefinitionSettings(NamedTuple):
    """What is done with changed definitions.

    Attributes:
        changes: with suspicious ones.
        take: the ids of the sources whose changes are all taken.
    """

    changes: Mode = "hold"
    take: tuple[str, ...] = ()

    def mode(self, source: str) -> Mode:
        """What is done with suspicious changes of this source."""
        return "take" if source in self.take else self.changes


class _Guards:
    """The guards of a workspace's servers, and the settings for them."""

    def __init__(self) -> None:
        self.settings = DefinitionSettings()
        self.guards: WeakSet[PinnedGuard] = WeakSet()


class DefinitionsPart(FeaturePart[DefinitionSettings, DefinitionSettings]):
    """Its settings are the user's: a project has no say in what its servers may change."""

    keys = ("definitions.changes", "definitions.take")
    trust_prefix = _PREFIX
    transient_prefix = _PREFIX

    def read_file(self, tables: FileTables) -> DefinitionSettings:
        """What this file says, if it is the user's."""
        if not tables.is_user:
            if tables.table("definitions"):
                message = "a workspace cannot set definitions; it is ignored"
                tables.context.notes.warn("CONFIG_KEY_REFUSED", message)
            return DefinitionSettings()
        fields = tables.fields("definitions")
        return DefinitionSettings(_read_changes(fields, tables), _read_take(fields, tables))

    def combine(
        self,
        user: DefinitionSettings,
        ours: DefinitionSettings,
        *,
        builtin: bool,
        shared: Mapping[str, Any],
    ) -> DefinitionSettings:
        """The user's."""
        return user

    def sources(
        self, settings: DefinitionSettings, world: SourceWorld, trusted: frozenset[tuple[str, str]]
    ) -> Iterator[SourceSpec]:
        """None; the guards are told that the settings or the user's decisions changed."""
        guards = _guards_of(world)
        guards.settings = settings
        for guard in list(guards.guards):
            guard.decided()
        yield from ()

    def guards(self, settings: DefinitionSettings, source: str) -> bool:
        """Whether its changes are not all taken."""
        return settings.mode(source) != "take"

    def guard(
        self, settings: DefinitionSettings, world: SourceWorld, server: GuardedServer
    ) -> DefinitionGuard | None:
        """What holds this server to its pins; None if all its changes are taken."""
        if not self.guards(settings, server.source):
            return None
        from lm_tools_bridge.pinned_definitions.guard import PinnedGuard

        guards, source = _guards_of(world), server.source
        root = world.dependencies.root
        guard = PinnedGuard(source, root, server.digest, lambda: guards.settings.mode(source), world.trusts)
        guards.guards.add(guard)
        return guard

    def needs_trust(
        self,
        root: Path,
        settings: DefinitionSettings,
        search: str,
        *,
        state_dir: Path | None,
        starts_programs: bool,
    ) -> NeedsTrust:
        """The servers of this project whose tools say something else than what was pinned."""
        if settings.changes == "take" or state_dir is None:
            return NeedsTrust()
        from lm_tools_bridge.pinned_definitions.guard import held_pins
        from lm_tools_bridge.pinned_definitions.pins import item_of

        items = [item_of(pins) for pins in held_pins(state_dir, root) if settings.mode(pins.source) != "take"]
        return NeedsTrust([item for item in items if item is not None])


def _guards_of(world: SourceWorld) -> _Guards:
    guards: _Guards = world.shared.setdefault(_SHARED, _Guards())
    return guards


def _read_changes(fields: Fields, tables: FileTables) -> Mode:
    from lm_tools_bridge.pinned_definitions.pins import Mode

    if "changes" not in fields.left:
        return "hold"
    try:
        mode: Mode = choice("definitions.changes", fields.take("changes"), Mode)
    except ConfigValueError as reason:
        message = f"{reason}; until it is corrected, changed definitions are held"
        tables.context.notes.error("CONFIG_INVALID_VALUE", message, key="changes")
        return "hold"
    return mode


def _read_take(fields: Fields, tables: FileTables) -> tuple[str, ...]:
    try:
        return tuple(fields.texts("take"))
    except ConfigValueError as reason:
        message = f"definitions: {reason}; it is ignored"
        tables.context.notes.warn("CONFIG_INVALID_VALUE", message, key="take")
        return ()


PART: Final = DefinitionsPart()
