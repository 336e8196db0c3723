"""Makes the command line of the workspace server's own command, which changes trust, tools and secrets."""

from __future__ import annotations

import sys

from manager.configuration.paths import Paths


def server_command(paths: Paths, search: str | None) -> list[str]:
    """The program and its first arguments; a verb and its arguments follow.

    Args:
        paths: the user's folders.
        search: the PATH of the manager's servers, for verbs that look up programs; None if it is unknown.
    """
    folders = (
        "--config-dir",
        paths.config_dir,
        "--state-dir",
        paths.state_dir,
        "--runtime-dir",
        paths.runtime_dir,
    )
    path_option = () if search is None else ("--path", search)
    return [sys.executable, "-I", "-m", "workspace_server.command", *map(str, folders), *path_option]
