"""Reads the table `[visibility]` of the user's `workspace.toml`: which tools of one project are listed. Pure.

[visibility."/home/ada/shop".tools]      offered name = "native" | "ondemand" | "always"
[visibility."/home/ada/shop".sources]    id of a source = the same
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workspace_server.config.file_issues import display_name
from workspace_server.config.formats.entries import EntryContext, warn_unknown_keys
from workspace_server.config.formats.fields import ConfigValueError, Fields, choice
from workspace_server.config.model import VisibilityChoices
from workspace_server.tool import Visibility

KEY: Final = "visibility"


def read(table: Mapping[str, Any], context: EntryContext) -> VisibilityChoices:
    """The choices for this workspace; what cannot be read is left out with a warning.

    The folder of a workspace is its absolute path without links, as commands write it. Placeholders are not
    expanded, so that each choice has one place, from which a command can remove it.
    """
    root = str(context.variables.root)
    project = _table(table.get(root), root, context)
    fields = Fields(project)
    choices = VisibilityChoices(
        tools=_choices(fields, "tools", context), sources=_choices(fields, "sources", context)
    )
    warn_unknown_keys(fields.left, context, known=fields.taken)
    return choices


def _choices(fields: Fields, kind: str, context: EntryContext) -> Mapping[str, Visibility]:
    visibilities: dict[str, Visibility] = {}
    for name, word in _table(fields.take(kind), kind, context).items():
        try:
            visibilities[name] = choice(f"{KEY}.….{kind}.{display_name(name)}", word, Visibility)
        except ConfigValueError as reason:
            context.notes.warn("CONFIG_INVALID_VALUE", f"{reason}; it is ignored", key=name)
    return visibilities


def _table(value: Any, key: str, context: EntryContext) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    message = f'"{KEY}.{display_name(key)}" must be a table; it is ignored'
    context.notes.warn("CONFIG_INVALID_VALUE", message, key=key)
    return {}
