"""Defines where scripts of a workspace may write, in case the user trusted a script by mistake.

Scripts may read what the user can read, and write to the workspace, temporary folders and caches of build
tools, but not to the rest of the home folder: keys, start-up files, folders on the PATH, our own state.
Scripts of the user are not confined. `processes/confinement.py` enforces the limits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from host.peers.confined_process import MAX_FILE_BYTES
from workspace_server.processes.confinement import Confinement

_SHARED: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  allowed, not used
_CACHES: Final = (
    ".cache",
    ".cargo/.package-cache",
    ".cargo/git",
    ".cargo/registry",
    ".ccache",
    ".gradle/caches",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    "go/pkg",
)
"""Folders below the home folder; none contains files that run without being called."""


def script_confinement(root: Path, call_folder: Path, environment: Mapping[str, str]) -> Confinement:
    """The limits of one call.

    Args:
        root: the workspace.
        call_folder: the private folder of the call.
        environment: the user's environment, of which TMPDIR and HOME are read.
    """
    places = [root, call_folder, Path(environment.get("TMPDIR") or tempfile.gettempdir())]
    places += map(Path, _SHARED)
    if home := environment.get("HOME"):
        places += [Path(home, cache) for cache in _CACHES]
    return Confinement(read_write=tuple(places), max_file_bytes=MAX_FILE_BYTES)
