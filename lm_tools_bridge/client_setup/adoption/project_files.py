"""Changes the files of one project that have servers, for `lmtb adopt`. Blocks.

A link on the way to a file is refused: the project would else decide about files of its user, such as the
`workspace.toml` that needs no trust.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lm_tools_bridge.client_setup.adoption.adoption_files import AdoptionFiles
from lm_tools_bridge.client_setup.adoption.decision import WORKSPACE_FILE
from lm_tools_bridge.client_setup.adoption.project_file_formats import PROJECT_FILES, ServersFile
from lm_tools_bridge.client_setup.editing import file_access
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.refusals import Refusal


@dataclass(frozen=True)
class ProjectFiles(AdoptionFiles):
    """The files of the project in the folder `root`."""

    root: Path
    state_dir: Path
    target: str = WORKSPACE_FILE

    @property
    def files(self) -> Sequence[ServersFile]:
        """The files of clients in a project."""
        return PROJECT_FILES

    @property
    def _name(self) -> str:
        return "project-" + hashlib.sha256(os.fsencode(self.root)).hexdigest()[:32]

    def started_by_clients(self) -> dict[ServersFile, list[str]]:
        """The servers that clients start themselves, of those that can move; none if a file is refused."""
        planned = self.plan()
        names: dict[ServersFile, list[str]] = {}
        for server in () if isinstance(planned, Refusal) else planned.adoption.moved:
            if server.is_started:
                names.setdefault(server.file, []).append(server.name)
        return names

    def _read(self, path: str) -> FileState | Refusal:
        return file_access.read(self.root / path, is_linkable=False)
