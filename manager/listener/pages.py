"""Makes the aiohttp runners: all routes of the port but those of MCP, and the control socket."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from manager.admin.control.control_socket import make_control_app
from manager.admin.control.project_command import ServerCommand, ToolChanges
from manager.admin.control.renewals import Renewals
from manager.admin.control.services import Services
from manager.admin.measures import TakeSnapshot
from manager.admin.routes import diagnosis_routes, make_app
from manager.configuration.paths import Paths
from manager.features import AddedRoutes, DaemonPart
from manager.http import lazy_aiohttp as web
from manager.listener.connections import Connections
from manager.listener.page_admission import install_admission


class OncePerSecond(logging.Filter):
    """Passes one log record per second: clients can provoke aiohttp's records about broken requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether this record is the first of its second."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + 1.0
        return True


_server_log = logging.getLogger("manager.listener.aiohttp")
_server_log.addFilter(OncePerSecond())


def port_app(
    services: Services,
    status: Callable[[], dict[str, Any]],
    measures: TakeSnapshot,
    features: Iterable[DaemonPart] = (),
) -> web.Application:
    """Make the port's application: diagnosis for programs, and what features serve."""
    added = [feature.port_routes() for feature in features]
    page = next((each.overview for each in added if each.overview is not None), None)
    app = make_app(services, status, measures, page, _for_anyone(added))
    _add(app, added)
    return app


def _for_anyone(added: Iterable[AddedRoutes]) -> frozenset[str]:
    return frozenset[str]().union(*(each.for_anyone for each in added))


def _add(app: web.Application, added: Iterable[AddedRoutes]) -> None:
    for each in added:
        app.add_routes(each.routes)
        if each.close is not None:
            app.on_shutdown.append(each.close)


def port_runner(app: web.Application, connections: Connections) -> web.AppRunner:
    """Make a runner for the port's application, with admission installed; it is not set up yet.

    A handler is cancelled when its client disconnects. Without `Runner`, on a plain aiohttp site, admission
    holds too, but there is no head deadline, connection cap or MCP route.

    Raises:
        ValueError: a route of the application answers HEAD, OPTIONS or every method.
    """
    install_admission(app, connections)
    rules, limits = connections.rules, connections.limits
    return web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        logger=_server_log,
        auto_decompress=False,
        keepalive_timeout=limits.keepalive_s,
        tcp_keepalive=True,
        lingering_time=limits.linger_s,
        shutdown_timeout=limits.shutdown_s,
        # At or above the caps of admission, so that its 431 comes first.
        max_line_size=rules.head_cap,
        max_field_size=rules.head_cap,
        max_headers=rules.field_cap + 1,
    )


def control_runner(
    services: Services,
    renewals: Renewals,
    status: Callable[[], dict[str, Any]],
    measures: TakeSnapshot,
    *,
    paths: Paths,
    features: Iterable[DaemonPart] = (),
) -> web.AppRunner:
    """Make a runner for the control socket's application; it is not set up yet."""
    added = [feature.control_routes() for feature in features]
    app = make_control_app(services, renewals, _for_anyone(added))
    app.add_routes(diagnosis_routes(status, measures))
    command = ServerCommand(paths, lambda: services.status().path)
    app.add_routes(ToolChanges(services, command).routes())
    _add(app, added)
    return web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
