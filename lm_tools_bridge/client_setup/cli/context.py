"""Collects what the client commands need: the user's machine, the state folder, and the manager's address."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from lm_tools_bridge.client_setup.clients import CLIENTS, Client, Machine, client_named
from lm_tools_bridge.client_setup.entries import Endpoint
from lm_tools_bridge.client_setup.workbench import ClientFiles
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.near_names import did_you_mean
from manager import exit_codes
from manager.cli.output.manager_access import ask, user_paths
from manager.cli.workspace_command import root_of
from manager.configuration.paths import Paths
from manager.configuration.settings import ConfigurationError, load_settings
from manager.status_reading import merged_workspaces


def running_port() -> int | None:
    """The port of the running manager; None without one."""
    try:
        address = ask("/status").get("address")
    except Failure:
        return None
    return urlsplit(address).port if isinstance(address, str) else None


def client_files(port: int | None) -> ClientFiles:
    """The files of this user's clients, with the address that entries are to have.

    Args:
        port: as given on the command line; else that of the running manager, else the configured one.
    """
    paths = user_paths()
    endpoint = Endpoint(port or running_port() or _configured_port(paths), program())
    return ClientFiles(user_machine(), paths.state_dir, endpoint)


def known_projects() -> list[Path]:
    """The roots of projects on this machine: the current one, and those that the running manager knows."""
    roots: list[Path] = []
    with suppress(Failure):
        roots.append(Path(root_of(None)))
    with suppress(Failure):
        rows = merged_workspaces(ask("/mcp/status"))
        roots += [Path(root) for row in rows if (root := str(row.get("root"))).startswith("/")]
    return roots


def user_machine() -> Machine:
    """This user's environment and home folder."""
    environ = dict(os.environ)
    home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    return Machine(environ, home, sys.platform)


def program() -> str:
    """The full path of `lmtb`, since desktop programs rarely have it on their PATH."""
    beside = Path(sys.executable).with_name("lmtb")
    return str(beside) if beside.exists() else shutil.which("lmtb") or "lmtb"


def named(names: Sequence[str]) -> list[Client]:
    """The clients of these names, each once. Fails for an unknown one."""
    clients: dict[str, Client] = {}
    for name in names:
        client = client_named(name)
        if client is None:
            ids = [client.id for client in CLIENTS]
            step = f"known are {', '.join(ids)}; for any other: lmtb client show other"
            raise Failure(
                f"no client is named {name}{did_you_mean(name, ids)}",
                step,
                exit_code=exit_codes.USAGE,
                reason="unknown_client",
            )
        clients[client.id] = client
    return list(clients.values())


def _configured_port(paths: Paths) -> int:
    try:
        port = load_settings(paths.config_file, os.environ, {}).http_port
    except ConfigurationError as error:
        step = "correct the setting, or name the port: --port"
        raise Failure(str(error), step, exit_code=exit_codes.HOPELESS, reason="configuration") from error
    if port:
        return port
    text = "the configured port is 0, so that the manager has another one after each start"
    raise Failure(text, "set http_port, or name a port: --port", reason="no_fixed_port")
