"""Plans, carries out and takes back installations of language servers. Blocks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.kinds.installed_servers import InstalledServer, InstalledServers
from lm_tools_bridge.code_intelligence.kinds.package_managers import (
    MANAGERS,
    InstallError,
    Resolution,
    Runner,
)
from lm_tools_bridge.code_intelligence.kinds.programs import is_program
from lm_tools_bridge.code_intelligence.kinds.table import GROUPS, KINDS, OUTLINE
from lm_tools_bridge.code_intelligence.specification import Package, ServerSpecification
from lm_tools_bridge.machine import private_files

_ALIASES: Final = {
    "c++": "cpp", "js": "javascript", "jsx": "javascriptreact", "ts": "typescript", "tsx": "typescriptreact",
    "golang": "go", "py": "python", "rs": "rust", "sh": "shellscript",
}  # fmt: skip
"""What people call a language -> its id."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What of the wanted servers can be installed.

    Attributes:
        kinds: those that a registry has.
        by_hand: sentences about those that the user has to get.
        unknown: words that are neither a language nor a server.
    """

    kinds: Sequence[ServerSpecification]
    by_hand: Sequence[str] = ()
    unknown: Sequence[str] = ()


def select_missing(rows: Sequence[Mapping[str, Any]]) -> Selection:
    """What a project lacks, as `lmtb languages` tells it. Pure."""
    names = dict.fromkeys(str(row["install"]) for row in rows if row.get("install"))
    missing = (row for row in rows if row.get("state") == "missing" and not row.get("install"))
    return Selection(
        [KINDS[name] for name in names], [f"{row['server']}: {row['reason']}" for row in missing]
    )


def select_named(words: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Selection:
    """The servers that a person named, by themselves or by a language. Pure.

    Of a language that the project has, those that it lacks are meant, as it may ask for others than usual.
    """
    kinds: dict[str, ServerSpecification] = {}
    by_hand, unknown = [], []
    for word in words:
        language = _ALIASES.get(word.lower(), word.lower())
        of_project = [row for row in rows if language in row.get("languages", ())]
        if word in KINDS and word != OUTLINE.name:
            selection = Selection([KINDS[word]])
        elif of_project:
            selection = select_missing(of_project)
        else:
            selection = Selection(list(usual_kinds(language)))
            unknown += [] if selection.kinds else [word]
        kinds |= {kind.name: kind for kind in selection.kinds if kind.package is not None}
        by_hand += [
            *selection.by_hand,
            *(f"{k.name}: {k.install_step}" for k in selection.kinds if k.package is None),
        ]
    return Selection(list(kinds.values()), by_hand, unknown)


def usual_kinds(language: str) -> Iterator[ServerSpecification]:
    """The best servers for a language in a project that says nothing else. Pure."""
    kinds: dict[str, ServerSpecification] = {}
    for group in GROUPS:
        first = next((kind for kind in group.kinds if language in kind.languages.values()), None)
        if first is not None and first is not OUTLINE and not first.needs_marker and first.check is None:
            kinds.setdefault(first.name, first)
    yield from kinds.values()


@dataclass(frozen=True, slots=True)
class Plan:
    """One server that would be installed.

    Attributes:
        before: what is installed of it now.
        resolution: what would be.
    """

    kind: ServerSpecification
    before: InstalledServer | None
    resolution: Resolution

    @property
    def is_current(self) -> bool:
        """Whether exactly this is installed."""
        return self.before is not None and self.before.artifacts == self.resolution.artifacts

    @property
    def version(self) -> str:
        """The version that would be installed."""
        return self.resolution.artifacts[0].version


@dataclass(frozen=True, slots=True)
class Installation:
    """Installs servers of one user.

    Attributes:
        servers: where to.
        runner: runs the registries' programs.
    """

    servers: InstalledServers
    runner: Runner

    def is_there(self, kind: ServerSpecification) -> bool:
        """Whether a server was installed, and its files are still there."""
        record = self.servers.read_record(kind.name)
        return record is not None and (not record.folder or self._folder(record).is_dir())

    def plan(self, kind: ServerSpecification) -> Plan:
        """Find out what would be installed.

        Raises:
            InstallError: the registry's program is missing, or failed.
        """
        package = _package_of(kind)
        # not below /tmp: these programs read settings from folders above, where other users may write
        with tempfile.TemporaryDirectory(prefix="resolve-", dir=self._own_folder()) as folder:
            try:
                resolution = MANAGERS[package.registry].resolve(package, Path(folder), self.runner)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                text = f"what {package.registry}'s program printed cannot be read: {error!r}"
                raise InstallError(text, "update that program, then try again") from error
        return Plan(kind, self.servers.read_record(kind.name), resolution)

    def carry_out(self, plan: Plan) -> InstalledServer:
        """Install what was planned.

        Raises:
            InstallError: it failed, and what was installed before is still in use.
            OSError, UnsafePathError, LockTimeout: our folder cannot be used.
        """
        package = _package_of(plan.kind)
        folder = self.servers.folder_of(plan.kind.name)
        for path in (self.servers.folder, self.servers.folder / "bin", folder):
            private_files.make_private(path)
        with private_files.locked(self.servers.lock_file):
            if not plan.resolution.keeps_files:
                MANAGERS[package.registry].install(package, plan.resolution, folder, self.runner)
                installed = InstalledServer(plan.kind.name, package.registry, "", plan.resolution.artifacts)
                self.servers.record(installed, ())
                return installed
            return self._install_files(plan, package, folder)

    def remove(self, record: InstalledServer) -> None:
        """Take a server away.

        Raises:
            InstallError, OSError, UnsafePathError, LockTimeout: something of it stays.
        """
        with private_files.locked(self.servers.lock_file):
            kind = KINDS.get(record.server)
            if kind is not None and kind.package is not None:
                folder = self.servers.folder_of(record.server)
                MANAGERS[record.registry].remove(kind.package, folder, self.runner)
            self.servers.remove(record.server)

    def _own_folder(self) -> Path:
        folder = self.servers.folder
        try:
            private_files.make_private(folder)
        except private_files.UnsafePathError as error:
            raise InstallError(str(error), error.hint) from error
        except OSError as error:
            raise InstallError(f"{folder} cannot be made: {error.strerror}", "see who owns it") from error
        return folder

    def _install_files(self, plan: Plan, package: Package, folder: Path) -> InstalledServer:
        manager = MANAGERS[package.registry]
        # a folder of its own: what is installed now stays in use until all of the new one is there
        new = Path(tempfile.mkdtemp(prefix=f"{plan.version}-", dir=folder))
        try:
            for name, text in plan.resolution.locked.items():
                (new / name).write_text(text, encoding="utf-8")
            manager.install(package, plan.resolution, new, self.runner)
            programs = [
                (name, new / manager.programs / name)
                for name in dict.fromkeys(command[0] for command in plan.kind.commands)
            ]
            if absent := [name for name, path in programs if not is_program(path)]:
                raise InstallError(f"the package has no program {', '.join(absent)}", "tell its makers")
            installed = InstalledServer(plan.kind.name, package.registry, new.name, plan.resolution.artifacts)
            self.servers.record(installed, programs)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return installed

    def _folder(self, record: InstalledServer) -> Path:
        return self.servers.folder_of(record.server) / record.folder


def _package_of(kind: ServerSpecification) -> Package:
    if kind.package is None:
        raise InstallError(f"no registry has {kind.name}", kind.install or "see its documentation")
    return kind.package
