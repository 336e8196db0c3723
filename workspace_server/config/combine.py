"""Merges the settings of several files by precedence, and separates those that need trust. Pure.

`load.py` reads the files. Policy settings come from one scope: the user's file, or the workspace if it sets
`useWorkspaceSettings`. Until the workspace is trusted, its settings can only restrict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from workspace_server.config.file_issues import FileIssues
from workspace_server.config.grouping import DEFAULT_RULES
from workspace_server.config.model import Approval, Configuration, PolicyDeltas
from workspace_server.config.settings import (
    CLOSED,
    DEBUG,
    DELTAS,
    GROUPING_RULES,
    SCHEMA_DEFAULTS,
    UNCLEAR_SCOPE,
    USE_WORKSPACE,
    Settings,
)

_STRICTNESS: Final[Mapping[Approval, int]] = {"allow": 0, "ask": 1, "deny": 2}
_NO_DELTAS: Final = PolicyDeltas()


def workspace_settings(ours: Settings, editors: Settings, notes: FileIssues) -> Settings:
    """The workspace's settings: `workspace.toml` takes precedence over the editor's file.

    `notes` belong to `workspace.toml`; settings that differ are reported there.
    """
    differing = sorted(key for key in ours.keys() & editors.keys() if ours[key] != editors[key])
    if differing:
        message = f"{', '.join(differing)}: the editor's settings differ; this file takes precedence"
        notes.warn("CONFIG_SETTINGS_DISAGREE", message)
    return {**editors, **ours}


def policy(user: Settings, workspace: Settings, notes: FileIssues) -> Mapping[str, Any]:
    """The fields of `Configuration` that depend on which scope is in force.

    Args:
        user: settings of the user's file.
        workspace: settings of the workspace.
        notes: issues of the workspace's file; receives a warning if its settings are not used.
    """
    closed = bool(user.get(CLOSED) or workspace.get(CLOSED))
    rules = (workspace if workspace.get(USE_WORKSPACE) else user).get(GROUPING_RULES, DEFAULT_RULES)
    if not workspace.get(USE_WORKSPACE):
        is_unclear = bool(workspace.get(UNCLEAR_SCOPE))
        unused = sorted(key for key in workspace if key.startswith("tools."))
        if unused and not is_unclear:
            message = f"{', '.join(unused)}: not used, because {USE_WORKSPACE} is not true"
            notes.warn("CONFIG_SCOPE_UNUSED", message)
        mine = _deltas(user)
        deltas = _narrowed(mine, _deltas(workspace)) if is_unclear else mine
        return {
            "deltas": replace(deltas, closed=closed),
            "schema_defaults": user.get(SCHEMA_DEFAULTS, ()),
            "grouping_rules": rules,
            "debug": user.get(DEBUG, "off"),
        }
    mine, theirs = _deltas(user), _deltas(workspace)
    now = _narrowed(mine, theirs)
    defaults, waiting = user.get(SCHEMA_DEFAULTS, ()), workspace.get(SCHEMA_DEFAULTS, ())
    return {
        "deltas": now,
        "widening": _difference(now, theirs),
        "schema_defaults": defaults,
        "widening_defaults": waiting if waiting != defaults else None,
        "grouping_rules": rules,
        "debug": workspace.get(DEBUG, "off"),
    }


def apply_widening(configuration: Configuration) -> Configuration:
    """The configuration once the workspace's settings are trusted; the same object if none is pending."""
    wide, waiting = configuration.widening, configuration.widening_defaults
    if wide == _NO_DELTAS and waiting is None:
        return configuration
    now = configuration.deltas
    deltas = PolicyDeltas(
        exposed=_sorted({*now.exposed, *wide.exposed}),
        unexposed=_sorted(set(now.unexposed) - set(wide.unexposed)),
        enabled=_sorted({*now.enabled, *wide.enabled}),
        disabled=_sorted(set(now.disabled) - set(wide.disabled)),
        closed=now.closed,
    )
    defaults = configuration.schema_defaults if waiting is None else waiting
    return replace(
        configuration, deltas=deltas, schema_defaults=defaults, widening=_NO_DELTAS, widening_defaults=None
    )


def approvals(user: Mapping[str, Approval], workspace: Mapping[str, Approval]) -> Mapping[str, Approval]:
    """The decision per tool: the user's, or the workspace's if that is stricter."""
    deltas = dict(user)
    for name, value in workspace.items():
        if name not in deltas or _STRICTNESS[value] > _STRICTNESS[deltas[name]]:
            deltas[name] = value
    return deltas


def _deltas(settings: Settings) -> PolicyDeltas:
    lists = {name: settings.get(key, ()) for name, key in DELTAS.items()}
    return PolicyDeltas(**lists, closed=bool(settings.get(CLOSED)))


def _narrowed(mine: PolicyDeltas, theirs: PolicyDeltas) -> PolicyDeltas:
    """The tools that both scopes show and neither hides."""
    return PolicyDeltas(
        exposed=_sorted(set(mine.exposed) & set(theirs.exposed)),
        unexposed=_sorted({*mine.unexposed, *theirs.unexposed}),
        enabled=_sorted(set(mine.enabled) & set(theirs.enabled)),
        disabled=_sorted({*mine.disabled, *theirs.disabled}),
        closed=mine.closed or theirs.closed,
    )


def _difference(now: PolicyDeltas, target: PolicyDeltas) -> PolicyDeltas:
    return PolicyDeltas(
        exposed=_sorted(set(target.exposed) - set(now.exposed)),
        unexposed=_sorted(set(now.unexposed) - set(target.unexposed)),
        enabled=_sorted(set(target.enabled) - set(now.enabled)),
        disabled=_sorted(set(now.disabled) - set(target.disabled)),
    )


def _sorted(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
