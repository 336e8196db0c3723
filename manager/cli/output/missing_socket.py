"""Waits for a manager that serves its port while its control socket is gone, until it has made it again."""

from __future__ import annotations

import os
import time
from typing import Final

import click

from lm_tools_bridge.terminal.command_line import Failure
from manager.client import Control, ManagerFault, NoManager
from manager.configuration.paths import Paths

WAIT_S: Final = 10.0
_PAUSE_S: Final = 0.1
_ANSWER_S: Final = 2.0


def wait_for_control_socket(paths: Paths, *, quiet: bool) -> bool:
    """Whether the manager's control socket came back; False at once if no manager serves the port.

    Args:
        quiet: whether to print nothing while waiting.

    Raises:
        Failure: a manager serves, but its control socket stays away.
    """
    if not _serves_port(paths):
        return False
    if not quiet:
        click.echo("the manager's control socket is gone; the manager makes it again within seconds ...")
    deadline = time.monotonic() + WAIT_S
    control = Control(paths.control_socket)
    while time.monotonic() < deadline:
        try:
            control.get("/health")
        except (NoManager, ManagerFault):
            time.sleep(_PAUSE_S)
        else:
            return True
    raise Failure(
        f"a manager serves the configured port, but not {paths.control_socket}",
        "see which program it is: lmtb doctor",
        reason="no_control_socket",
    )


def _serves_port(paths: Paths) -> bool:
    """Whether a manager of this user answers on the configured port; it refuses all other users."""
    import http.client  # 20 ms that only this case needs

    from manager.configuration.loading import ConfigurationError, load_settings

    try:
        port = load_settings(paths.config_file, os.environ, {}).http_port
    except ConfigurationError:
        return False
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)
    try:
        connection.request("GET", "/mcp/health")
        response = connection.getresponse()
        return response.status == 200 and response.read(100) == b'{"ok":true}'
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
