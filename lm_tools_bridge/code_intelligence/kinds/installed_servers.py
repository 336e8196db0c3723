"""The folder of language servers that `lmtb languages install` got, with a record of each. Blocks.

    bin/PROGRAM                   links to the programs, where workspace servers look for them
    servers/SERVER/installed.json what was installed, with the digests
    servers/SERVER/VERSION/       the files of one version

A version has a folder of its own, and a link is replaced at once: the next answer starts the new version.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.specification import Registry
from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.own_distribution import LANGUAGE_SERVERS, data_folder

_RECORD: Final = "installed.json"
_MAX_RECORD: Final = 1024 * 1024
"""Bytes: a server with three hundred packages has 60 kB."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One package of a server.

    Attributes:
        name, version: as its registry calls them.
        digests: of the files that may be installed for it, as `sha256:…`.
        host: the host that the file came from; empty if the registry's program does not say.
    """

    name: str
    version: str
    digests: tuple[str, ...] = ()
    host: str = ""


@dataclass(frozen=True, slots=True)
class InstalledServer:
    """What was installed for one server.

    Attributes:
        server: the name of its kind.
        folder: the name of its version's folder; empty if its registry's program keeps the files itself.
        artifacts: its packages, its own first.
    """

    server: str
    registry: Registry
    folder: str
    artifacts: tuple[Artifact, ...]

    @property
    def version(self) -> str:
        """The version of its own package."""
        return self.artifacts[0].version if self.artifacts else ""


@dataclass(frozen=True, slots=True)
class InstalledServers:
    """The folder with all of them."""

    folder: Path

    @classmethod
    def of_user(cls) -> InstalledServers:
        """Those of the user that this process runs for."""
        return cls(data_folder() / LANGUAGE_SERVERS)

    @property
    def lock_file(self) -> Path:
        """Held while something is installed or removed."""
        return self.folder / "lock"

    def folder_of(self, server: str) -> Path:
        """Where the versions of a server are."""
        return self.folder / "servers" / server

    def read_record(self, server: str) -> InstalledServer | None:
        """What is installed of a server; None if nothing is, or the record is not ours."""
        try:
            content = private_files.read(self.folder_of(server) / _RECORD, _MAX_RECORD)
            return None if content is None else _parse_record(json.loads(content))
        except (OSError, private_files.UnsafePathError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def read_all(self) -> Iterator[InstalledServer]:
        """What is installed, by name."""
        with suppress(OSError):
            for path in sorted((self.folder / "servers").iterdir()):
                if record := self.read_record(path.name):
                    yield record

    def record(self, installed: InstalledServer, programs: Sequence[tuple[str, Path]]) -> None:
        """Use what was installed, and remove the version before.

        Args:
            installed: the new version, complete on disk.
            programs: the names of its programs, with their paths.
        """
        before = self.read_record(installed.server)
        content = json.dumps({**asdict(installed), "programs": [name for name, _ in programs]}, indent=1)
        private_files.write(self.folder_of(installed.server) / _RECORD, content.encode())
        for name, path in programs:
            _replace_link(self.folder / "bin" / name, path)
        if before is not None and before.folder and before.folder != installed.folder:
            shutil.rmtree(self.folder_of(installed.server) / before.folder, ignore_errors=True)

    def remove(self, server: str) -> None:
        """Remove a server with its links. Idempotent.

        Raises:
            OSError: something of it stays.
        """
        folder = self.folder_of(server)
        with suppress(FileNotFoundError):
            for link in (self.folder / "bin").iterdir():
                if link.is_symlink() and Path(os.path.realpath(link)).is_relative_to(
                    os.path.realpath(folder)
                ):
                    link.unlink()
        if folder.exists():
            shutil.rmtree(folder)


def _replace_link(link: Path, target: Path) -> None:
    beside = link.with_name(f".{link.name}.{os.urandom(6).hex()}")
    beside.symlink_to(os.path.relpath(target, link.parent))
    beside.replace(link)


def _parse_record(value: Any) -> InstalledServer:
    artifacts = (
        Artifact(str(row["name"]), str(row["version"]), tuple(map(str, row["digests"])), str(row["host"]))
        for row in value["artifacts"]
    )
    folder = str(value["folder"])
    if os.sep in folder or folder.startswith("."):
        raise ValueError(folder)
    return InstalledServer(str(value["server"]), value["registry"], folder, tuple(artifacts))
