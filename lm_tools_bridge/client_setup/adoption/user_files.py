"""Changes a user's files of clients that have servers for all projects, for `lmtb adopt --user`. Blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lm_tools_bridge.client_setup.adoption.adoption_files import AdoptionFiles
from lm_tools_bridge.client_setup.adoption.project_file_formats import ServersFile
from lm_tools_bridge.client_setup.adoption.user_file_formats import user_files
from lm_tools_bridge.client_setup.clients import Machine
from lm_tools_bridge.client_setup.editing import file_access
from lm_tools_bridge.client_setup.editing.file_access import FileState
from lm_tools_bridge.client_setup.refusals import Refusal


@dataclass(frozen=True)
class UserFiles(AdoptionFiles):
    """The files of the user of a machine; all paths are absolute."""

    machine: Machine
    state_dir: Path
    target: str

    @property
    def root(self) -> Path:  # type: ignore[override]  # read-only, which the base does not say
        """The home folder, which only messages name."""
        return self.machine.home

    @cached_property
    def files(self) -> Sequence[ServersFile]:
        """The files of the user's clients, and their sections."""
        return user_files(self.machine, _content)

    def _read(self, path: str) -> FileState | Refusal:
        """The file. The `workspace.toml` becomes readable by its user only: secrets move to it."""
        state = super()._read(path)
        if path != self.target or isinstance(state, Refusal):
            return state
        return replace(state, mode=state.mode & 0o700)

    @property
    def _name(self) -> str:
        return "user-servers"


def _content(path: Path) -> bytes | None:
    state = file_access.read(path)
    return state.content if isinstance(state, FileState) else None
