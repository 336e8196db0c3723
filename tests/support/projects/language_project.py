"""A project with programs of language servers, each of which would leave a mark if it ran."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from lm_tools_bridge.code_intelligence.kinds.available_kinds import (
    AvailableKinds,
    KindChoices,
    Trusts,
    trusts_nothing,
)
from lm_tools_bridge.code_intelligence.settings import LanguageServerEntry
from workspace_server.config.model import EntryOrigin, Scope
from workspace_server.trust.store import TrustStore


@dataclass
class LanguageProject:
    """A project, a folder of programs on the PATH, and a trust store."""

    folder: Path
    root: Path = field(init=False)
    bin: Path = field(init=False)
    ran: Path = field(init=False)
    store: TrustStore = field(init=False)
    trusts: Trusts = field(init=False)

    def __post_init__(self) -> None:
        self.root, self.bin = self.folder / "project", self.folder / "bin"
        self.ran = self.folder / "ran"
        for folder in (self.root, self.bin):
            folder.mkdir()
        self.store = TrustStore(self.folder / "state" / "trust")
        self.trusts = lambda digests: self.store.verdicts(self.root, digests)

    def put(self, *names: str, text: str = "") -> Path:
        """Files of the project; returns the last."""
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path

    def program(self, path: str | Path) -> Path:
        """A program of the project, or at an absolute path."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f'#!/bin/sh\necho "$0" >> {self.ran}\n')
        place.chmod(0o755)
        return place

    def on_path(self, name: str) -> Path:
        """A program of the user."""
        return self.program(self.bin / name)

    def entry(self, name: str, scope: Scope = "user", **members: object) -> LanguageServerEntry:
        """What a file of the user or of the project says of a server."""
        own = self.root / ".lm-tools-bridge" / "workspace.toml"
        file = own if scope == "workspace" else self.folder / "workspace.toml"
        return LanguageServerEntry(name, EntryOrigin(file, scope), **members)

    def kinds(self, *entries: LanguageServerEntry, path: str | None = None) -> AvailableKinds:
        """The kinds as the workspace server sees them."""
        search = str(self.bin) if path is None else path
        return AvailableKinds([self.root], KindChoices(lambda: search, self.root, self.trusts, entries))

    def untrusted(self) -> None:
        """Nothing is trusted, whatever the store has."""
        self.trusts = trusts_nothing

    def trust_all(self, kinds: AvailableKinds) -> None:
        """What `lmtb trust` does."""
        self.store.trust(self.root, kinds.items())


def npm_tool(folder: Path, name: str, version: str) -> Path:
    """An npm package of this version with a program, linked as npm does; returns the link."""
    package = folder / "node_modules" / name
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(f'{{"name": "{name}", "version": "{version}"}}')
    script = package / "bin" / "tsc"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    link = folder / "node_modules" / ".bin" / "tsc"
    link.parent.mkdir(exist_ok=True)
    os.symlink(f"../{name}/bin/tsc", link)
    return link
