"""Says which files of a project matter to a language server, by their names. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.code_intelligence.specification import ServerSpecification

SKIPPED_FOLDERS: Final = frozenset(
    {
        ".bundle", ".cache", ".direnv", ".eggs", ".git", ".gradle", ".hg", ".idea", ".jj", ".mypy_cache",
        ".next", ".nox", ".pnpm-store", ".pytest_cache", ".ruff_cache", ".svn", ".terraform", ".tox",
        ".turbo", ".venv", ".yarn", "__pycache__", "bower_components", "node_modules",
    }
)  # fmt: skip
"""Names of folders without sources of the project: version control, dependencies, caches."""

GENERATED_MARKS: Final = frozenset(
    {"CACHEDIR.TAG", "CMakeCache.txt", "build.ninja", "meson-private", "pyvenv.cfg"}
)
"""A folder with one of these holds what tools made: caches, build trees, virtual environments.

Names such as `build` and `target` say nothing: packages of sources have them, too.
"""

_C_FILES: Final = frozenset(
    {"compile_commands.json", "compile_flags.txt", ".clangd", ".clang-tidy", ".clang-format"}
)
_C_SUFFIXES: Final = frozenset({".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".def", ".tpp"})
_PYTHON_FILES: Final = frozenset(
    {
        "pyproject.toml",
        "setup.cfg",
        "pyrightconfig.json",
        "ruff.toml",
        ".ruff.toml",
        "ty.toml",
        "pyrefly.toml",
    }
    | {"mypy.ini", ".mypy.ini", "py.typed", ".gitignore", ".ignore"}
)
_NO_NAMES: Final[frozenset[str]] = frozenset()
_PROJECT_FILES: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "c": (_C_FILES, _C_SUFFIXES),
    "cpp": (_C_FILES, _C_SUFFIXES),
    "python": (_PYTHON_FILES, frozenset({".pyi"})),
    # a configuration may extend a file of any name, and programs import JSON
    "javascript": (_NO_NAMES, frozenset({".json"})),
    "typescript": (_NO_NAMES, frozenset({".json"})),
    "rust": (
        frozenset({"Cargo.toml", "Cargo.lock", "rust-project.json", "rust-toolchain", "rust-toolchain.toml"}),
        _NO_NAMES,
    ),
    "go": (frozenset({"go.mod", "go.sum", "go.work", "go.work.sum"}), _NO_NAMES),
}
"""By `languageId`: the names and the suffixes of further files that change a server's answers."""

_MAX_WATCHERS: Final = 1000
"""Real servers register some dozens of patterns; each is tried on every name of a look."""
_MAX_PATTERN: Final = 500
"""Characters: no name of a file that a pattern could match is longer."""
_MAX_ALTERNATIVES: Final = 100
"""Words in one pair of braces, each of which becomes a pattern."""


@dataclass(frozen=True, slots=True)
class Relevance:
    """The names of files that matter.

    Attributes:
        suffixes: what a name ends with, from its last dot on.
        names: whole names.
    """

    suffixes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def includes(self, name: str) -> bool:
        """Whether a file of this name matters."""
        dot = name.rfind(".")
        return (dot >= 0 and name[dot:] in self.suffixes) or name in self.names

    def __le__(self, other: Relevance) -> bool:
        """Whether all that matters here matters there, too."""
        return self.suffixes <= other.suffixes and self.names <= other.names

    def __or__(self, other: Relevance) -> Relevance:
        """What matters to either."""
        return Relevance(self.suffixes | other.suffixes, self.names | other.names)


def relevance_of(specification: ServerSpecification) -> Relevance:
    """The files of the kind's languages and the project files that configure them."""
    suffixes = {f".{key.rpartition('.')[2]}" for key in specification.languages if key.startswith(".")}
    names = {key for key in specification.languages if not key.startswith(".")}
    names |= {marker.rpartition("/")[2] for marker in specification.markers}
    for language in set(specification.languages.values()):
        more_names, more_suffixes = _PROJECT_FILES.get(language, (_NO_NAMES, _NO_NAMES))
        names |= more_names
        suffixes |= more_suffixes
    return Relevance(frozenset(suffixes), frozenset(names))


def relevance_of_watchers(registrations: Iterable[Mapping[str, Any]]) -> Relevance:
    """The names and suffixes that a server's `workspace/didChangeWatchedFiles` registrations end with.

    Patterns for files of any name, such as `**/*`, add nothing.
    """
    suffixes: set[str] = set()
    names: set[str] = set()
    for pattern in _patterns(registrations):
        for last in _alternatives(pattern.rpartition("/")[2] if "{" not in pattern else pattern):
            name = last.rpartition("/")[2]
            if name.startswith("*.") and not _is_pattern(name[2:]):
                suffixes.add(f".{name.rpartition('.')[2]}")
            elif name and not _is_pattern(name):
                names.add(name)
    return Relevance(frozenset(suffixes), frozenset(names))


def _patterns(registrations: Iterable[Mapping[str, Any]]) -> list[str]:
    patterns: list[str] = []
    for registration in registrations:
        watchers = registration.get("watchers")
        for watcher in watchers[:_MAX_WATCHERS] if isinstance(watchers, list) else ():
            pattern = watcher.get("globPattern") if isinstance(watcher, Mapping) else None
            if isinstance(pattern, Mapping):
                pattern = pattern.get("pattern")
            if isinstance(pattern, str) and len(pattern) <= _MAX_PATTERN:
                patterns.append(pattern)
    return patterns[:_MAX_WATCHERS]


def _alternatives(pattern: str) -> list[str]:
    """The pattern with its first group of braces spelled out; further groups stay, and match nothing."""
    head, opened, rest = pattern.partition("{")
    inner, closed, tail = rest.partition("}")
    if not (opened and closed):
        return [pattern]
    return [f"{head}{word.strip()}{tail}" for word in inner.split(",")[:_MAX_ALTERNATIVES]]


def _is_pattern(text: str) -> bool:
    return any(character in text for character in "*?[{}")
