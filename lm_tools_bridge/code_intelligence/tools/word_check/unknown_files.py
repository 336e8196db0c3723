"""Says why a language server may not know a file: a configuration excludes it, or the file itself does.

Each reason is a fact about the file. It is told only of words that the server did not explain.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools.word_check.source_text import without_comments

MAX_FILES: Final = 200
"""Files whose reason is looked for: a sentence names a few for each reason."""
_SCRIPT_CONFIGURATIONS: Final = ("tsconfig.json", "jsconfig.json")
_DATABASE: Final = "compile_commands.json"
NOT_COMPILED: Final = f"not in {_DATABASE}"
"""clangd guesses in such a file: without a header, it takes the first call of a name for its declaration."""
_COMPILED: Final = frozenset({".c", ".cc", ".cpp", ".cxx", ".m", ".mm", ".cu"})
"""Suffixes of files that a database names; headers are known by those that include them."""
_GO_SYSTEMS: Final = re.compile(
    r"_(?:aix|android|darwin|dragonfly|freebsd|illumos|ios|js|linux|netbsd|openbsd|plan9|solaris|wasip1|windows"
    r"|386|amd64|arm|arm64|loong64|mips\w*|ppc64\w*|riscv64|s390x|wasm)(?:_test)?\.go$"
)
_GO_CONSTRAINT: Final = re.compile(r"//\s*(?:go:build|\+build)\s")
_HEAD: Final = 50
"""Lines of a Go file in which its constraint stands: above its package clause, below its licence."""
ReadLines = Callable[[Path], Sequence[str] | None]
"""The lines of a file that may be shown."""


@dataclass(frozen=True, slots=True)
class FileReasons:
    """Why files are not known. Blocks.

    Attributes:
        kind: of the server.
        home: the file that declares the symbol.
        roots: the folders of the workspace.
        read: see `ReadLines`.
    """

    kind: ServerSpecification
    home: Path
    roots: Sequence[Path]
    read: ReadLines
    _configurations: dict[Path, Any] = field(default_factory=dict)

    def of_files(self, paths: Iterable[Path]) -> dict[str, str]:
        """The reasons of those files that have one, each in a few words."""
        first = [path for _, path in zip(range(MAX_FILES), paths, strict=False)]
        reasons = {str(path): self._reason(path) for path in first}
        return {path: reason for path, reason in reasons.items() if reason}

    def _reason(self, path: Path) -> str:
        language = self.kind.languages.get(path.suffix) or self.kind.languages.get(path.name)
        if language is None:
            return f"{self.kind.name} does not read {path.suffix} files"
        if language in {"c", "cpp", "objective-c", "objective-cpp", "cuda-cpp"}:
            return self._not_in_database(path)
        if language == "go":
            return self._constraint(path) or self._other_package(path, "go.mod")
        if language == "rust":
            return self._other_package(path, "Cargo.toml")
        if language.startswith(("typescript", "javascript")):
            return self._excluded_script(path)
        return ""

    def _not_in_database(self, path: Path) -> str:
        if path.suffix not in _COMPILED:
            return ""
        for folder in self._folders_above(path):
            for database in (folder / _DATABASE, folder / "build" / _DATABASE):
                entries = self._configuration(database)
                if isinstance(entries, list):
                    return "" if str(path) in _compiled_files(entries) else NOT_COMPILED
        return ""

    def _constraint(self, path: Path) -> str:
        is_limited = _GO_SYSTEMS.search(path.name) or any(
            _GO_CONSTRAINT.match(line) for line in (self.read(path) or ())[:_HEAD]
        )
        return "it has a build constraint" if is_limited else ""

    def _other_package(self, path: Path, name: str) -> str:
        own, home = self._nearest(path, (name,)), self._nearest(self.home, (name,))
        return f"in the package of {self._relative_path(own)}" if own is not None and own != home else ""

    def _excluded_script(self, path: Path) -> str:
        configuration = self._nearest(path, _SCRIPT_CONFIGURATIONS)
        if configuration is None:
            return "no tsconfig.json or jsconfig.json above it"
        members = self._configuration(configuration)
        relative = os.path.relpath(path, configuration.parent)
        if not isinstance(members, Mapping) or is_included(relative, members):
            return ""
        return f"excluded by {self._relative_path(configuration)}"

    def _nearest(self, path: Path, names: Sequence[str]) -> Path | None:
        candidates = (folder / name for folder in self._folders_above(path) for name in names)
        return next((candidate for candidate in candidates if candidate.is_file()), None)

    def _folders_above(self, path: Path) -> list[Path]:
        """The folders of a file up to the root of the workspace that it lies in."""
        return [folder for folder in path.parents if any(folder.is_relative_to(root) for root in self.roots)]

    def _configuration(self, path: Path) -> Any:
        """The value of a JSON file with comments; None if it has none."""
        if path not in self._configurations:
            lines = self.read(path) if path.is_file() else None
            self._configurations[path] = None if lines is None else _parse("\n".join(lines))
        return self._configurations[path]

    def _relative_path(self, path: Path) -> str:
        root = next(root for root in self.roots if path.is_relative_to(root))
        return path.relative_to(root).as_posix()


def is_included(relative: str, members: Mapping[str, Any]) -> bool:
    """Whether `files`, `include` and `exclude` of a tsconfig.json name a file, by its path from there. Pure.

    A configuration that extends another one and lacks these members counts as one that includes all.
    """
    files, include, exclude = (_patterns(members.get(name)) for name in ("files", "include", "exclude"))
    path = relative.replace(os.sep, "/")
    if path in {pattern.removeprefix("./") for pattern in files or ()}:
        return True
    if include is None and files is not None:
        return False
    is_named = include is None or any(_matches(path, pattern) for pattern in include)
    return is_named and not any(_matches(path, pattern) for pattern in exclude or ())


def _patterns(value: Any) -> list[str] | None:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else None


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern of a tsconfig.json matches a path, or a folder of it."""
    text = pattern.removeprefix("./").rstrip("/")
    text = text.removesuffix("/**/*").removesuffix("/**") or "**"
    parts = {"**/": r"(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    words = re.split(r"(\*\*/|\*\*|\*|\?)", text)
    expression = "".join(parts.get(word, re.escape(word)) for word in words)
    return re.fullmatch(rf"{expression}(?:/.*)?", path) is not None


def _compiled_files(entries: Sequence[Any]) -> frozenset[str]:
    """The absolute paths in a compilation database."""
    files = (entry for entry in entries if isinstance(entry, Mapping))
    return frozenset(
        os.path.normpath(os.path.join(str(entry.get("directory", "")), entry["file"]))  # noqa: PTH118  of thousands
        for entry in files
        if isinstance(entry.get("file"), str)
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(re.sub(r",(\s*[\]}])", r"\1", without_comments(text, ".js")))
    except (ValueError, RecursionError):
        return None
