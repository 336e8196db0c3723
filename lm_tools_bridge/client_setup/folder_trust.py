"""Reads which folders a client trusts: elsewhere it uses no servers of the project, or none. Blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.client_setup.change import FileFormat, decoded, value_at
from lm_tools_bridge.client_setup.clients import Client, Machine
from lm_tools_bridge.client_setup.editing import file_access
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.editing.jsonc_parser import Dialect

_GEMINI_FILE: Final = "trustedFolders.json"
_COMMENTS: Final = Dialect(comments=True)


def reads_project_files(client: Client, machine: Machine, project: Path) -> bool:
    """Whether a client uses the servers of this project's files. Codex has a list of trusted projects."""
    if client.id != "codex":
        return True
    for file in client.candidates(machine):
        section = _value(file, client.form.dialect, "projects", str(project))
        if isinstance(section, dict) and section.get("trust_level") == "trusted":
            return True
    return False


def uses_servers(client: Client, machine: Machine, project: Path) -> bool:
    """Whether a client uses any server in this project. Gemini CLI has a list of trusted folders."""
    if client.id != "gemini-cli":
        return True
    folder = client.folder(machine)
    settings = _value(folder / client.files[-1], client.form.dialect, "security", "folderTrust")
    if isinstance(settings, dict) and settings.get("enabled") is False:
        return True
    rules = _value(folder / _GEMINI_FILE, _COMMENTS)
    best, trusted = -1, False
    for path, rule in rules.items() if isinstance(rules, dict) else ():
        place = Path(path).parent if rule == "TRUST_PARENT" else Path(path)
        if project.is_relative_to(place) and len(place.parts) > best:
            best, trusted = len(place.parts), rule != "DO_NOT_TRUST"
    return trusted


def _value(file: Path, dialect: Dialect | None, *path: str) -> Any:
    """A value in a file; None or a problem if it cannot be read."""
    state = file_access.read(file)
    text = decoded(state.content or b"", "") if isinstance(state, FileState) else None
    return value_at(text, FileFormat("", dialect), path) if isinstance(text, str) else None
