"""Lists where each client finds its MCP servers, and how it expands variables. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lm_tools_bridge.client_setup.change import FileFormat
from lm_tools_bridge.client_setup.clients import Client, Machine

Scope = Literal["project", "user"]


@dataclass(frozen=True, slots=True)
class Place:
    """An object with servers in a file.

    Attributes:
        file: the file.
        container: the names that lead to the object.
        form: how the client reads the file.
        scope: whose file it is.
    """

    file: Path
    container: tuple[str, ...]
    form: FileFormat
    scope: Scope


@dataclass(frozen=True, slots=True)
class Reading:
    """How a client reads its files.

    Attributes:
        project_files: its files in a project, which take precedence over those of the user.
        variable: matches a variable in a text, with groups `name` and `default`; None: there are none.
        merges: whether entries of one name are merged key by key; else the first one counts alone.
        sections: whether the user's file has a section for each project, before all others.
    """

    project_files: tuple[str, ...] = ()
    variable: re.Pattern[str] | None = None
    merges: bool = False
    sections: bool = False


_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
_DEFAULT: Final = r"(?::-(?P<default>[^}]*))?"
_BRACED: Final = re.compile(rf"\$\{{{_NAME}{_DEFAULT}\}}")
_DOLLAR: Final = re.compile(rf"\$(?:\{{{_NAME}{_DEFAULT}\}}|(?P<bare>[A-Za-z_][A-Za-z0-9_]*))")
_OPENCODE: Final = re.compile(r"\{env:(?P<name>[^}]+)\}(?P<default>(?!))?")
_EDITOR: Final = re.compile(
    r"\$\{(?:env:(?P<name>[^}]+)|(?P<editor>workspaceFolder|userHome))\}(?P<default>(?!))?"
)
_NOTHING: Final = Reading()

READING: Final[Mapping[str, Reading]] = {
    "claude-code": Reading((".mcp.json",), _BRACED, sections=True),
    "codex": Reading((".codex/config.toml",), merges=True),
    "gemini-cli": Reading((".gemini/settings.json",), _DOLLAR),
    "opencode": Reading(("opencode.jsonc", "opencode.json"), _OPENCODE, merges=True),
    "vscode": Reading((".vscode/mcp.json",), _EDITOR),
    "cursor": Reading((".cursor/mcp.json",), _EDITOR),
    "copilot-cli": Reading((".mcp.json", ".github/mcp.json"), _DOLLAR),
    "qwen-code": Reading((".qwen/settings.json",), _DOLLAR),
    "kilo": Reading((".kilo/kilo.jsonc", "kilo.jsonc", "kilo.json"), _OPENCODE, merges=True),
    "grok": Reading((".grok/config.toml",), _BRACED, merges=True),
    "zed": Reading((".zed/settings.json",)),
    "windsurf": Reading((), _EDITOR),
}


def reading_of(client: Client) -> Reading:
    """How a client reads its files."""
    return READING.get(client.id, _NOTHING)


def places_of(client: Client, machine: Machine, project: Path) -> tuple[Place, ...]:
    """Where a client that works in a project finds its servers, the place with precedence first."""
    reading, form = reading_of(client), client.form
    top = (form.container,)
    own = [Place(file, top, form, "user") for file in client.candidates(machine)]
    sections = [
        Place(place.file, ("projects", str(project), form.container), form, "user")
        for place in own
        if reading.sections
    ]
    shared = [Place(project / name, top, form, "project") for name in reading.project_files]
    return (*sections, *shared, *own)


@dataclass(frozen=True, slots=True)
class Expanded:
    """A value with its variables replaced, and the names of those that are not set."""

    value: Any
    unset: tuple[str, ...]


def expanded(
    value: Any, client: Client, environ: Mapping[str, str], project: Path, *, of_user: bool
) -> Expanded:
    """A value as the client uses it. A variable that is not set stays as it is written.

    Args:
        value: an entry or a part of it.
        client: the client.
        environ: its environment.
        project: the folder in which it works.
        of_user: whether the entry is of a user's file, where editors have no project.
    """
    variable = reading_of(client).variable
    unset: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("editor"):
            values = {"workspaceFolder": None if of_user else str(project), "userHome": environ.get("HOME")}
            text = values[groups["editor"]]
        else:
            text = environ.get(groups["name"] or groups.get("bare") or "", groups["default"])
        if text is None:
            unset.append(match[0])
            return match[0]
        return text

    result = value if variable is None else _mapped(value, lambda text: variable.sub(replaced, text))
    return Expanded(result, tuple(dict.fromkeys(unset)))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value
