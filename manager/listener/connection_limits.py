"""Derives the limits of client connections from the settings and from how many files may be open."""

from __future__ import annotations

from lm_tools_bridge.http_server.limits import Limits
from lm_tools_bridge.machine.own_process import connections_within, raise_limit
from manager.configuration.settings import Settings
from manager.logs.log import logger


def connection_limits(settings: Settings) -> Limits:
    """The limits of the manager's port. Raises this process's limit of open files; logs if it is low."""
    files = raise_limit()
    most = connections_within(files, settings.connection_limit)
    if most < settings.connection_limit:
        hint = "allow more open files: ulimit -n, or LimitNOFILE= of the service"
        logger().warning("connections.limited", most=most, open_files=files, hint=hint)
    return Limits(
        head_s=settings.header_timeout_s,
        body_s=settings.body_timeout_s,
        room_s=settings.body_timeout_s / 3,
        unread_s=settings.client_read_timeout_s,
        keepalive_s=settings.keep_alive_s,
        connections=most,
    )
