"""Reads this program's settings (`lmToolsBridge.<key>`) from an editor's files. Pure.

`sources/builtin/files/editor_settings.py` reads the editor's own search settings from the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workspace_server.config import settings
from workspace_server.config.file_issues import FileIssues
from workspace_server.config.settings import Settings

PREFIX: Final = "lmToolsBridge."


def read(document: Mapping[str, Any], notes: FileIssues) -> Settings:
    """The checked settings of one decoded file; keys without our prefix are ignored."""
    ours = {key.removeprefix(PREFIX): value for key, value in document.items() if key.startswith(PREFIX)}
    return settings.check_settings(ours, notes)


def of_workspace_file(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings in a `*.code-workspace` file."""
    found = document.get("settings")
    return found if isinstance(found, Mapping) else {}
