"""Tells which libraries a project in Python imports, for projects without an environment. Blocks.

Without an environment a server cannot find any library, so errors about these imports say nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import FileDiagnostics

MAX_FILES: Final = 1_000
"""Files that are read: what the first thousand import, the others import as well, mostly."""
_MAX_HEAD: Final = 32_768
"""Bytes of each: imports stand above the code."""
_NAMED: Final = 3
"""Libraries that a sentence names; the others are counted."""
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\w+)[\w.]*[ \t]+import\b|import[ \t]+(ITEM(?:[ \t]*,[ \t]*ITEM)*))".replace(
        b"ITEM", rb"[\w.]+(?:[ \t]+as[ \t]+\w+)?"
    ),
    re.M,
)
_NO_LIBRARIES: Final = frozenset(
    {"__future__", "_typeshed", "annotationlib", "asynchat", "asyncore", "compression", "distutils", "imp"}
    | {"smtpd"}
)
"""Modules that type checkers bring, or that other versions of Python have."""
_CODES: Final = frozenset(
    {"import-not-found", "unresolved-import", "reportMissingImports", "reportMissingModuleSource"}
    | {"missing-import", "import-untyped"}
)
"""How type checkers call a module that they do not find."""
_INSTALL: Final = "python3 -m venv .venv && .venv/bin/pip install"
_MAKERS: Final[Mapping[str, str]] = {
    "uv.lock": "uv sync",
    "poetry.lock": "poetry install",
    "pdm.lock": "pdm install",
    "Pipfile.lock": "pipenv install --dev",
    "requirements.txt": f"{_INSTALL} -r requirements.txt",
    "pyproject.toml": f"{_INSTALL} -e .",
    "setup.py": f"{_INSTALL} -e .",
}
"""By a file of the project, the surest first: what makes its environment with its libraries."""
_QUOTED: Final = re.compile(r"[`\"']([\w.]+)[`\"']")


def imported_libraries(files: Sequence[Path], root: Path) -> frozenset[str]:
    """The top-level modules that files import, and that neither Python nor the project has.

    Args:
        files: those of the project; folders and files with the name of a module count as this module.
        root: the folder of the project.
    """
    inside = (file.relative_to(root) if file.is_relative_to(root) else Path(file.name) for file in files)
    own = {part.partition(".")[0] for file in inside for part in file.parts}
    imports = {name for file in files[:MAX_FILES] for name in _imports(file)}
    return frozenset(imports - own - sys.stdlib_module_names - _NO_LIBRARIES)


def _imports(file: Path) -> Iterable[str]:
    try:
        with file.open("rb") as stream:
            head = stream.read(_MAX_HEAD)
    except OSError:
        return
    for match in _IMPORT.finditer(head):
        for name in (match[1] or match[2]).split(b","):
            yield re.split(rb"[\s.]", name.strip(), maxsplit=1)[0].decode("ascii", "replace")


def without_unresolved(files: Sequence[FileDiagnostics], libraries: Set[str]) -> list[FileDiagnostics]:
    """The diagnostics without those that say of an import of these libraries that it was not found."""
    return [
        FileDiagnostics(
            file.path, file.lines, [item for item in file.diagnostics if not _is_unresolved(item, libraries)]
        )
        for file in files
    ]


def _is_unresolved(diagnostic: Mapping[str, Any], libraries: Set[str]) -> bool:
    if diagnostic.get("code") not in _CODES:
        return False
    match = _QUOTED.search(str(diagnostic.get("message")))
    return match is not None and match[1].partition(".")[0] in libraries


def missing_environment(libraries: Set[str], root: Path | None = None) -> str:
    """What answers lack for want of an environment, in a sentence; empty if the project needs none.

    Args:
        libraries: what the project imports.
        root: its folder, whose files tell what makes the environment.
    """
    if not libraries:
        return ""
    names = sorted(libraries, key=str.lower)
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"no environment: imports of libraries are not checked ({', '.join(names[:_NAMED])}{rest}); "
        f"`{making_command(root)}` makes it, or name one in workspace.toml: "
        "[language_servers] python_environment"
    )


def making_command(root: Path | None) -> str:
    """The command that makes the environment of a project and installs its libraries."""
    for name, command in _MAKERS.items():
        if root is not None and (root / name).is_file():
            return command
    return "python3 -m venv .venv"
