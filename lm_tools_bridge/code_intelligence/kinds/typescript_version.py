"""Finds out which TypeScript a project uses: the installed one, else what package.json asks for. Blocks.

A language server of another major version accepts other options, and finds other errors and uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import regular_file

NATIVE_MAJOR: Final = 7
"""From this version on the compiler is a language server itself; it removed options that older ones take."""
MAX_PACKAGES: Final = 50
"""Files `package.json` that are read, those near the root first: there a monorepo names its compiler."""
_TABLES: Final = ("devDependencies", "dependencies", "peerDependencies")
_COMPARATOR: Final = re.compile(r"(\^|~>?|>=?|<=?|=)?\s*v?(\d+)(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?")


@dataclass(frozen=True, slots=True)
class ProjectTypeScript:
    """The TypeScript of a project.

    Attributes:
        version: of the installed one, or the range that package.json gives.
        major: the highest major version that this allows.
        is_installed: whether `node_modules` has it.
    """

    version: str
    major: int
    is_installed: bool

    @property
    def is_native(self) -> bool:
        """Whether TypeScript 7 is what the project wants."""
        return self.major >= NATIVE_MAJOR

    def doubt(self) -> str:
        """What answers of TypeScript 7 lack in this project, with what would help; empty if nothing."""
        if self.is_native:
            return ""
        uses = "has" if self.is_installed else "asks for"
        return (
            f"the project {uses} TypeScript {self.version}, and this is TypeScript {NATIVE_MAJOR}: errors "
            "and uses may differ; `lmtb languages install typescript-language-server` and "
            "`lmtb trust` add a server that uses the project's version"
        )


def project_typescript(folders: Iterable[Path], packages: Iterable[Path]) -> ProjectTypeScript | None:
    """The TypeScript of a project; None if nothing says which.

    Args:
        folders: of the workspace.
        packages: the files `package.json` of the project itself.
    """
    for folder in folders:
        version = _text(
            regular_file.read_json(folder / "node_modules/typescript/package.json").get("version")
        )
        if (major := _leading_number(version)) is not None:
            return ProjectTypeScript(version, major, is_installed=True)
    near = sorted(packages, key=lambda path: (len(path.parts), str(path)))
    for package in near[:MAX_PACKAGES]:
        for range_text in _asked_for(regular_file.read_json(package)):
            if (major := highest_major(range_text)) is not None:
                return ProjectTypeScript(range_text, major, is_installed=False)
    return None


def highest_major(range_text: str) -> int | None:
    """The highest major version that a range of npm allows; None if it sets no limit, or is none. Pure."""
    majors = [_highest_of(part) for part in range_text.removeprefix("npm:typescript@").split("||")]
    return None if None in majors else max((major for major in majors if major is not None), default=None)


def _highest_of(comparators: str) -> int | None:
    """The same for comparators that must all hold."""
    limits = []
    hyphen = re.fullmatch(r"\s*[\d.]+\s+-\s+([\d.]+)\s*", comparators)
    for match in _COMPARATOR.finditer(hyphen[1] if hyphen else comparators):
        sign, major = match[1] or "", int(match[2])
        if sign == "<":
            is_whole = not any(part and part.isdigit() and int(part) for part in match.groups()[2:])
            limits.append(major - 1 if is_whole else major)
        elif not sign.startswith(">"):
            limits.append(major)
    return min(limits, default=None)


def _asked_for(package: Mapping[str, object]) -> Iterator[str]:
    for table in _TABLES:
        dependencies = package.get(table)
        if isinstance(dependencies, Mapping) and (range_text := _text(dependencies.get("typescript"))):
            yield range_text


def _leading_number(version: str) -> int | None:
    major = version.partition(".")[0]
    return int(major) if major.isascii() and major.isdigit() else None


def _text(value: object) -> str:
    return value[:60] if isinstance(value, str) and value.isprintable() else ""
