"""What the manager is built from, and what hangs on what. Nothing runs here: that is `daemon.py`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manager.admin.control_plane import ControlPlane
from manager.admin.measures import Measures
from manager.admin.status import Status
from manager.answers.catalog import Catalog
from manager.answers.dispatch import Dispatch
from manager.answers.handshake import Handshakes
from manager.answers.lists import Lists
from manager.answers.roots import RootsRequests
from manager.answers.server_discover import ServerDiscover
from manager.endpoints.mcp import McpRoutes, OwnTask
from manager.endpoints.session_requests import LegacyEndpoint
from manager.endpoints.stateless import ModernEndpoint
from manager.filesystem import FolderExaminer
from manager.forwarding.forward import Forwarder
from manager.http.stream_endings import Endings
from manager.paths import Paths
from manager.routing.state.clients import Clients
from manager.sessions.preferences import Preferences
from manager.sessions.session_manager import SessionManager
from manager.sessions.upstream_subscriptions import UpstreamSubscriptions
from manager.settings import Settings
from manager.store import Store
from manager.supervision.dependencies import Surroundings
from manager.supervision.fork_servers import Templates
from manager.supervision.registered_servers import ExternalServers
from manager.supervision.workspaces import Workspaces
from protocol.internal.launch import Folders


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that the daemon opens, asks or closes; the others are reached through them."""

    store: Store
    externals: ExternalServers
    templates: Templates
    workspaces: Workspaces
    session_manager: SessionManager
    upstream_subscriptions: UpstreamSubscriptions
    routes: McpRoutes
    control: ControlPlane
    status: Status
    measures: Measures


def assemble(
    settings: Settings,
    paths: Paths,
    port: int,
    *,
    address: str,
    own_task: OwnTask,
    stop: Callable[[str, bool], None],
    streams_end: Endings,
) -> Parts:
    """Put the manager together.

    Args:
        port, address: where it will be reached.
        own_task: runs something in a task of the daemon's.
        stop: begins the stop, for a reason, keeping the workspace servers or not.
        streams_end: ends standing streams.
    """
    store = Store(paths.state_file, set_aside_name=lambda: time.strftime("%Y%m%d-%H%M%S"))
    folders = Folders(str(paths.config_dir), str(paths.state_dir), str(paths.runtime_dir))
    templates = Templates(
        os.environ, paths.logs_dir, wanted=settings.fork_servers, sleep=asyncio.sleep, now=time.monotonic
    )
    around = Surroundings(settings, store, paths.logs_dir, os.environ, folders, port, templates)
    examiner = FolderExaminer()
    externals = ExternalServers(around, examiner)
    workspaces = Workspaces(around, examiner, externals, home=_home(), windows=sys.platform == "win32")
    session_manager = SessionManager(settings, store)
    forwarder = Forwarder(workspaces, settings)
    catalog = Catalog(forwarder, settings)
    handshakes = Handshakes(workspaces, catalog, session_manager, around)
    roots = RootsRequests(os.urandom(32), time.time)
    dispatch = Dispatch(workspaces, forwarder, Lists(forwarder, catalog, settings), handshakes, roots)
    server_discover = ServerDiscover(workspaces, catalog)
    clients = Clients()
    upstream_subscriptions = UpstreamSubscriptions(session_manager.notifier, workspaces, externals)
    preferences = Preferences(session_manager, workspaces, upstream_subscriptions)
    routes = McpRoutes(
        dispatch,
        LegacyEndpoint(session_manager, dispatch, server_discover, preferences, settings),
        ModernEndpoint(dispatch, server_discover, streams_end),
        settings,
        own_task=own_task,
        clients=clients,
    )
    return Parts(
        store,
        externals,
        templates,
        workspaces,
        session_manager,
        upstream_subscriptions,
        routes,
        ControlPlane(port, workspaces, externals, stop, os.environ.get("PATH")),
        Status(workspaces, externals, session_manager, clients, store, address),
        Measures(workspaces, session_manager),
    )


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None
