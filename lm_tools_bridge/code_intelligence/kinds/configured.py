"""Applies what the configuration says of language servers to the known kinds, and adds others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lm_tools_bridge.code_intelligence.settings import LanguageServerEntry
from lm_tools_bridge.code_intelligence.specification import ServerSpecification, merged_deep


@dataclass(frozen=True, slots=True)
class Setup:
    """A kind as it would be started.

    Attributes:
        specification: the kind, with what the configuration changes.
        entry: the entry that changes it, if there is one; of both files, if both have one.
    """

    specification: ServerSpecification
    entry: LanguageServerEntry | None = None

    @property
    def is_projects(self) -> bool:
        """Whether a file of the workspace has a say."""
        return self.entry is not None and self.entry.origin.scope == "workspace"


@dataclass(frozen=True, slots=True)
class ConfiguredKind:
    """A kind in both ways in which it may run.

    Attributes:
        setups: with the workspace's entry, which needs trust, and without; only those that exist.
        disabled_in: the file that switches it off.
    """

    setups: tuple[Setup, ...]
    disabled_in: Path | None = None

    @property
    def without_trust(self) -> ServerSpecification:
        """The kind while the workspace's entry is not trusted."""
        return self.setups[-1].specification


def configured_kinds(
    kinds: Mapping[str, ServerSpecification], entries: Iterable[LanguageServerEntry]
) -> Mapping[str, ConfiguredKind]:
    """All kinds by name. Either file can switch a server off; else the user's entry takes precedence."""
    configured = {name: ConfiguredKind((Setup(kind),)) for name, kind in kinds.items()}
    by_name: dict[str, dict[str, LanguageServerEntry]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, {})[entry.origin.scope] = entry
    for name, both in by_name.items():
        user, own = both.get("user"), both.get("workspace")
        off = next(
            (
                entry_of_scope.origin.file
                for entry_of_scope in (user, own)
                if entry_of_scope is not None and not entry_of_scope.enabled
            ),
            None,
        )
        setups = tuple(_setups(kinds.get(name), user, own))
        if setups:
            configured[name] = ConfiguredKind(setups, off)
    return configured


def _setups(
    kind: ServerSpecification | None, user: LanguageServerEntry | None, own: LanguageServerEntry | None
) -> Iterable[Setup]:
    if own is not None and (changed := _changed(_changed(kind, own), user)) is not None:
        yield Setup(changed, own if user is None else _merged(own, user))
    if (plain := _changed(kind, user)) is not None:
        yield Setup(plain, user)


def _changed(
    kind: ServerSpecification | None, entry: LanguageServerEntry | None
) -> ServerSpecification | None:
    """The kind with what an entry says; None for an unknown one without a command."""
    if entry is None:
        return kind
    if kind is None:
        if not entry.command or not entry.languages:
            return None
        # nothing is known of its signs
        kind = ServerSpecification(
            entry.name, entry.languages, (entry.command,), ready="settled", grace_s=1.0
        )
    return replace(
        kind,
        commands=(entry.command,) if entry.command else kind.commands,
        languages=entry.languages or kind.languages,
        options=merged_deep(kind.options, entry.options),
        settings=merged_deep(kind.settings, entry.settings),
        runs_nothing_of_the_project=_claim(kind, entry),
    )


def _claim(kind: ServerSpecification, entry: LanguageServerEntry) -> str:
    """Why the kind runs nothing of a project: as the user says, or as is known of the command as it was."""
    is_changed = entry.command or entry.options or entry.settings or entry.env
    return entry.runs_nothing_of_the_project or ("" if is_changed else kind.runs_nothing_of_the_project)


def _merged(own: LanguageServerEntry, user: LanguageServerEntry) -> LanguageServerEntry:
    return replace(
        own,
        env={**own.env, **user.env},
        memory_limit_bytes=user.memory_limit_bytes or own.memory_limit_bytes,
        idle_s=user.idle_s or own.idle_s,
    )
