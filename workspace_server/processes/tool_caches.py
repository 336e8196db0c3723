"""Gives confined programs caches of their own, and the variables by which their tools find them.

From the user's own caches later programs run (`npx`, `uvx`, builds), so who writes there leaves its
confinement. No two of these caches are shared, as one program could poison another's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from lm_tools_bridge.machine import project_file
from lm_tools_bridge.machine.private_files import UnsafePathError

_CACHES: Final = "lm-tools-bridge"
"""The folder of all these caches in the user's folder of caches."""
_VARIABLES: Final[Mapping[str, str]] = {
    "XDG_CACHE_HOME": "",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "CARGO_HOME": "cargo",
    "CCACHE_DIR": "ccache",
    "DENO_DIR": "deno",
    "GOCACHE": "go-build",
    "GOMODCACHE": "go-mod",
    "GRADLE_USER_HOME": "gradle",
    "NUGET_PACKAGES": "nuget",
    "PIP_CACHE_DIR": "pip",
    "PRE_COMMIT_HOME": "pre-commit",
    "PIPX_HOME": "pipx",
    "UV_CACHE_DIR": "uv",
    "UV_TOOL_DIR": "uv-tools",
    "YARN_CACHE_FOLDER": "yarn",
    "YARN_GLOBAL_FOLDER": "yarn-global",
    "npm_config_cache": "npm",
    "npm_config_store_dir": "pnpm",
}
"""Variables by which tools find their caches, with the folder in ours. Maven has an option instead."""
_MAVEN: Final = "-Dmaven.repo.local="


def cache_folder(
    kind: Literal["scripts", "servers"], owner: str, environment: Mapping[str, str]
) -> Path | None:
    """The folder of the caches of one owner of programs; None without a home folder."""
    home = environment.get("HOME")
    if not home:
        return None
    base = Path(os.path.realpath(Path(home, ".cache")))  # a link that the user made
    return base / _CACHES / kind / hashlib.sha256(os.fsencode(owner)).hexdigest()[:16]


def cache_variables(folder: Path) -> dict[str, str]:
    """The variables that lead tools to caches in this folder."""
    places = {name: str(folder / below) for name, below in _VARIABLES.items()}
    return {**places, "MAVEN_OPTS": f"{_MAVEN}{folder / 'm2'}"}


def make_cache(folder: Path) -> None:
    """Make the folder where it is missing. Blocks.

    Raises:
        OSError: it cannot be made, or a link is on the way to it.
    """
    try:
        with project_file.held(folder, make=0o700):
            pass
    except UnsafePathError as unsafe:
        raise OSError(f"{unsafe.path} {unsafe.reason}") from None
