"""Reads what a project in Python says of its type checkers: which files they check, and where libraries are.

What a tool reports is less than what the project is: uses are looked for in all files. Blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.checked_files import CheckedFiles
from lm_tools_bridge.code_intelligence.python_projects.environments import table_in
from lm_tools_bridge.machine import regular_file
from workspace_server.config.formats.jsonc import ConfigFileError, parse_object

_PYRIGHT_EXCLUDES: Final = ("**/node_modules", "**/__pycache__", "**/.*")
"""What Pyright leaves out unless its configuration says what."""


@dataclass(frozen=True, slots=True)
class ToolChoices:
    """What a project says of one tool.

    Attributes:
        checked: the files that it reports about.
        leaves_out: whether these are fewer than the project has.
        excludes: whether some are left out by name.
        names_environment: whether it says where libraries are.
    """

    checked: CheckedFiles
    leaves_out: bool = False
    excludes: bool = False
    names_environment: bool = False


def ty_choices(root: Path) -> ToolChoices:
    """What `ty.toml` or `[tool.ty]` says."""
    settings = regular_file.read_toml(root / "ty.toml") or table_in(
        regular_file.read_toml(root / "pyproject.toml"), "tool", "ty"
    )
    files = table_in(settings, "src")
    include, exclude = _texts(files.get("include")), _texts(files.get("exclude"))
    checked = CheckedFiles(root, include)  # it leaves out what it excludes by itself
    names_environment = "python" in table_in(settings, "environment")
    return ToolChoices(checked, bool(include), bool(exclude), names_environment)


def pyright_choices(root: Path, name: str) -> ToolChoices:
    """What `pyrightconfig.json`, or the tables of Pyright or Basedpyright, say.

    Args:
        root: the folder of the project.
        name: `pyright` or `basedpyright`.
    """
    tool = table_in(regular_file.read_toml(root / "pyproject.toml"), "tool")
    settings = _json(root / "pyrightconfig.json") or table_in(tool, name) or table_in(tool, "pyright")
    include, exclude = _texts(settings.get("include")), settings.get("exclude")
    excludes = _PYRIGHT_EXCLUDES if exclude is None else _texts(exclude)
    checked = CheckedFiles(root, include, excludes)
    leaves_out = bool(include) or bool(set(excludes) - set(_PYRIGHT_EXCLUDES))
    return ToolChoices(checked, leaves_out, names_environment="venv" in settings)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _json(file: Path) -> Mapping[str, Any]:
    try:
        return parse_object(regular_file.read_text(file).encode())
    except ConfigFileError:
        return {}
