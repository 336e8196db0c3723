"""Says which packages a project of Node.js lacks: dependencies, and its own that were not built. Blocks.

A TypeScript server takes what it cannot find for `any`, and knows no uses there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import regular_file

MAX_PACKAGES: Final = 300
"""Packages of a monorepo that are looked at: each costs a few looks at the disk, after changes only."""
MAX_SETTINGS: Final = 30
"""Files `tsconfig*.json` that are searched for paths of packages, those near the root first."""
_MAX_NAMED: Final = 3
"""Packages that a sentence names."""
_DEPENDENCIES: Final = ("dependencies", "devDependencies")
_INSTALLERS: Final = {
    "pnpm-lock.yaml": "pnpm install",
    "yarn.lock": "yarn install",
    "bun.lock": "bun install",
    "bun.lockb": "bun install",
}
"""The command that installs dependencies, by the lock file beside package.json; else it is npm's."""
_RESOLVED: Final = ("types", "import", "require", "node", "default")
"""Conditions of `exports` that a TypeScript server takes, or that lead to a file it takes."""


@dataclass(frozen=True, slots=True)
class Package:
    """A `package.json` of the project."""

    folder: Path
    content: Mapping[str, object]

    @property
    def name(self) -> str:
        """Its name; empty if it has none."""
        name = self.content.get("name")
        return name if isinstance(name, str) and name.isprintable() else ""

    def dependencies(self) -> frozenset[str]:
        """The names of what it needs to be checked."""
        tables = (self.content.get(table) for table in _DEPENDENCIES)
        return frozenset(name for table in tables if isinstance(table, Mapping) for name in table)

    def entry_files(self) -> list[str]:
        """The files that an import of its name leads to, relative to its folder."""
        exports = self.content.get("exports")
        if isinstance(exports, Mapping) and "." in exports:
            exports = exports["."]
        entries = [self.content.get("types"), self.content.get("typings"), *_targets(exports)]
        if exports is None:
            entries.append(self.content.get("main"))
        texts = (entry.removeprefix("./") for entry in entries if isinstance(entry, str))
        return [entry for entry in texts if "*" not in entry and ".." not in entry and entry[:1] != "/"]


def missing_packages(folders: Sequence[Path], files: Iterable[str]) -> str:
    """What answers lack because packages are not there, with the command that brings them; empty if nothing.

    Args:
        folders: of the workspace, absolute and link-free.
        files: those of the project, as absolute paths. Blocks.
    """
    paths = sorted(map(Path, files), key=lambda path: (len(path.parts), path))
    manifests = [path for path in paths if path.name == "package.json"][:MAX_PACKAGES]
    packages = [Package(path.parent, regular_file.read_json(path)) for path in manifests]
    own = {package.name: package for package in packages if package.name}
    settings = [path for path in paths if path.name.startswith("tsconfig") and path.suffix == ".json"]
    if reason := _not_installed(folders, packages, own.keys()):
        return reason
    unbuilt = _unbuilt(packages, own)
    # sources may stand for what is built
    text = "\n".join(map(regular_file.read_text, settings[:MAX_SETTINGS])) if unbuilt else ""
    unbuilt = [name for name in unbuilt if f'"{name}"' not in text and "customConditions" not in text]
    return _not_built(unbuilt, packages)


def _not_installed(folders: Sequence[Path], packages: Sequence[Package], own: Iterable[str]) -> str:
    """For a package near the top: those of examples and fixtures are often not meant to be installed."""
    top = [package for package in packages if package.folder in folders]
    for package in top:
        needed = package.dependencies() - set(own)
        if needed and not _has_modules(package.folder):
            return (
                f"node_modules is missing, so imports of {_listed_names(sorted(needed))} are not resolved; "
                f"{_installer(package.folder)} brings them"
            )
    return ""


def _unbuilt(packages: Sequence[Package], own: Mapping[str, Package]) -> list[str]:
    """Packages of the project that others of it import by name, and whose files are not there."""
    imported = {name for package in packages for name in package.dependencies() if name != package.name}
    return sorted(name for name, package in own.items() if name in imported and _is_unbuilt(package))


def _not_built(unbuilt: Sequence[str], packages: Sequence[Package]) -> str:
    if not unbuilt:
        return ""
    has = "has" if len(unbuilt) == 1 else "have"
    script = "build" if _has_script(packages, "build") else "prepare"
    return (
        f"{_listed_names(unbuilt)} of this project {has} not been built, so uses through its name may "
        f"be missing; `npm run {script}` builds it"
    )


def _is_unbuilt(package: Package) -> bool:
    entries = package.entry_files()
    return bool(entries) and not any((package.folder / entry).exists() for entry in entries)


def _targets(exports: object) -> Iterator[object]:
    """The files that the conditions of an entry of `exports` lead to."""
    if isinstance(exports, str):
        yield exports
    elif isinstance(exports, Mapping):
        for condition in _RESOLVED:
            yield from _targets(exports.get(condition))


def _has_modules(folder: Path) -> bool:
    """Whether dependencies are installed for a folder: there, above it, or in Yarn's own way."""
    places = [folder, *folder.parents]
    return any((place / "node_modules").is_dir() for place in places) or (folder / ".pnp.cjs").exists()


def _installer(folder: Path) -> str:
    commands = (command for file, command in _INSTALLERS.items() if (folder / file).exists())
    return f"`{next(commands, 'npm install')}`"


def _has_script(packages: Sequence[Package], name: str) -> bool:
    scripts = packages[0].content.get("scripts")
    return isinstance(scripts, Mapping) and name in scripts


def _listed_names(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
