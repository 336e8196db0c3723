"""Finds all servers that `lmtb adopt` took from their clients, and puts them back. Blocks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lm_tools_bridge.client_setup.adoption.adoption_files import AdoptionFiles, ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.decision import USER_FILE, WORKSPACE_FILE
from lm_tools_bridge.client_setup.adoption.left_to_us import SETTINGS_FILE
from lm_tools_bridge.client_setup.clients import Machine
from lm_tools_bridge.client_setup.editing import undo_records
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.machine.private_files import UnsafePathError
from manager.configuration.paths import Paths

_OWN_FILES: Final = "your own files"


@dataclass(slots=True)
class MovedServers:
    """The changes of files by `lmtb adopt` that can be taken back, and those that cannot.

    Attributes:
        places: whose servers moved, for people, and the files.
        refused: what could not be put back, for people.
    """

    places: list[tuple[str, AdoptionFiles]]
    refused: list[str] = field(default_factory=list)

    @classmethod
    def find_all(cls, paths: Paths, home: Path) -> MovedServers:
        """Look for the remembered changes of all projects, and of the user's own files."""
        places: list[tuple[str, AdoptionFiles]] = [
            (str(root), ProjectFiles(root, paths.state_dir)) for root in _project_roots(paths.state_dir)
        ]
        own = UserFiles(
            Machine(dict(os.environ), home, sys.platform), paths.state_dir, str(paths.config_dir / USER_FILE)
        )
        if own.has_undo():
            places.append((_OWN_FILES, own))
        return cls(places)

    def put_back(self) -> Iterator[str]:
        """Put all servers back; yields whose are done. What is refused stays, with its undo data."""
        places, self.places = self.places, []
        for name, files in places:
            planned = files.plan_undo(whole=True)
            refusal = planned if isinstance(planned, Refusal) else files.undo(planned)
            if refusal is None:
                yield name
            else:
                self.places.append((name, files))
                self.refused.append(f"the servers of {name}: {refusal.message}; {refusal.next_step}")

    def left(self) -> Iterator[str]:
        """What is not where it was, for people."""
        yield from self.refused
        for name, _ in self.places if not self.refused else ():
            yield f"the servers of {name} that lmtb adopt took from their client"


def _project_roots(state_dir: Path) -> Iterator[Path]:
    for file in sorted((state_dir / undo_records.FOLDER).glob("project-*.json")):
        try:
            changes = undo_records.load_stack(state_dir, file.stem)
        except (OSError, UnsafePathError):
            continue
        roots = (_root_of(record.path) for change in changes for record in change)
        yield from dict.fromkeys(root for root in roots if root is not None)


def _root_of(path: Path) -> Path | None:
    """The project of a file that each change has: its `workspace.toml`, or Claude Code's settings."""
    for ending in (Path(WORKSPACE_FILE).parts, Path(SETTINGS_FILE).parts):
        if path.parts[-len(ending) :] == ending:
            return Path(*path.parts[: -len(ending)])
    return None
