"""Builds the parts of the manager and connects them; `daemon.py` starts them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from lm_tools_bridge.http_server.byte_budget import ByteBudget
from lm_tools_bridge.protocol.internal.launch import Folders
from manager.admin.control.control_plane import ControlPlane
from manager.admin.control.services import StartedBy
from manager.admin.measures import Measures
from manager.admin.status import Status
from manager.answers.catalog import Catalog, ServerDiscover
from manager.answers.dispatch import Dispatch
from manager.answers.handshake import Handshakes
from manager.answers.list_adaptation import ListAdaptation, OwnServersLookup
from manager.answers.lists import Lists
from manager.answers.roots import RootsRequests
from manager.call_observer import NO_OBSERVER
from manager.configuration.paths import Paths
from manager.configuration.settings import Settings, by_client
from manager.disk.filesystem import FolderExaminer
from manager.endpoints.mcp import McpRoutes, OwnTask
from manager.endpoints.session_requests import SessionEndpoint
from manager.endpoints.stateless import StatelessEndpoint
from manager.features import DaemonPart, DaemonStart, make_parts, make_remote_hosts
from manager.forwarding.forward import Forwarder
from manager.guests import ClosedGate, GuestGate
from manager.http.open_streams import StreamEndings
from manager.installation import Installation
from manager.relay.fast_path import FastPath
from manager.route_cache.cached_calls import CachedPath
from manager.routing.client_profiles import ClientProfiles
from manager.routing.state.clients import RecentClients
from manager.sessions.client_processes import ClientProcesses
from manager.sessions.preferences import Preferences
from manager.sessions.session_manager import SessionManager
from manager.sessions.upstream_subscriptions import UpstreamSubscriptions
from manager.state_file import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.fork_server import ForkServerSupervisor
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspaces import Workspaces
from manager.waiting_calls import NOBODY, WaitingCalls


class Parts(msgspec.Struct, frozen=True):
    """The parts that the daemon opens, calls or closes. The others are reached through them."""

    store: Store
    registered_servers: RegisteredServers
    fork_server: ForkServerSupervisor
    workspaces: Workspaces
    session_manager: SessionManager
    upstream_subscriptions: UpstreamSubscriptions
    routes: McpRoutes
    control: ControlPlane
    status: Status
    measures: Measures
    guest_gate: GuestGate | None
    waiting_calls: WaitingCalls
    features: Mapping[str, DaemonPart]
    installation: Installation
    buffers: ByteBudget
    client_processes: ClientProcesses


def assemble(
    settings: Settings,
    paths: Paths,
    port: int,
    *,
    address: str,
    own_task: OwnTask,
    stop: Callable[[str, bool, bool], None],
    started_by: StartedBy,
    streams_end: StreamEndings,
    proof_reason: str | None,
) -> Parts:
    """Put the manager together.

    Args:
        port: the manager's TCP port.
        address: the URL of its MCP endpoint.
        own_task: runs a coroutine in a task of the daemon.
        stop: `stop(reason, keep_servers, restarts)` begins the stop.
        started_by: who runs this process.
        streams_end: ends server streams.
        proof_reason: see `DaemonStart`.
    """
    features = make_parts(DaemonStart(settings, paths, address, proof_reason))
    store = Store(
        paths.state_file,
        set_aside_name=lambda: time.strftime("%Y%m%d-%H%M%S"),
        unsaved=paths.unsaved_file,
    )
    folders = Folders(str(paths.config_dir), str(paths.state_dir), str(paths.runtime_dir))
    installation = Installation()
    fork_server = ForkServerSupervisor(
        os.environ, paths.logs_dir, is_enabled=settings.fork_servers, sleep=asyncio.sleep, now=time.monotonic
    )
    waiting_calls = next(filter(None, (part.waiting_calls() for part in features.values())), NOBODY)
    observer = next(filter(None, (part.observer() for part in features.values())), NO_OBSERVER)
    dependencies = Dependencies(
        settings,
        store,
        paths.logs_dir,
        os.environ,
        folders,
        port,
        fork_server,
        installation,
        waiting_calls,
        observer,
    )
    examiner = FolderExaminer()
    registered_servers = RegisteredServers(dependencies, examiner)
    workspaces = Workspaces(
        dependencies,
        examiner,
        registered_servers,
        home=_home(),
        windows=sys.platform == "win32",
        make_remote_hosts=make_remote_hosts(features.values()),
    )
    profiles = ClientProfiles(by_client(settings))
    session_manager = SessionManager(settings, store, profiles)
    forwarder = Forwarder(workspaces, settings, observer)
    catalog = Catalog(forwarder, settings)
    own_servers = OwnServersLookup(profiles, _home(), is_wanted=settings.hide_own_servers)
    adaptation = ListAdaptation(profiles, own_servers)
    handshakes = Handshakes(workspaces, catalog, adaptation, session_manager, dependencies)
    roots = RootsRequests(os.urandom(32), time.time)
    lists = Lists(forwarder, catalog, settings, adaptation)
    dispatch = Dispatch(workspaces, forwarder, lists, handshakes, roots)
    server_discover = ServerDiscover(workspaces, catalog, adaptation)
    clients = RecentClients()
    client_processes = ClientProcesses()
    upstream_subscriptions = UpstreamSubscriptions(session_manager.notifier, workspaces, registered_servers)
    lists.before_list = upstream_subscriptions.listen_first
    preferences = Preferences(session_manager, workspaces, upstream_subscriptions)
    routes = McpRoutes(
        dispatch,
        SessionEndpoint(session_manager, dispatch, server_discover, preferences, settings, waiting_calls),
        StatelessEndpoint(dispatch, server_discover, streams_end),
        settings,
        profiles,
        own_task=own_task,
        clients=clients,
        client_processes=client_processes,
    )
    routes.fast_path = _fast_path(routes, dispatch, session_manager, clients, settings, profiles)
    return Parts(
        store,
        registered_servers,
        fork_server,
        workspaces,
        session_manager,
        upstream_subscriptions,
        routes,
        ControlPlane(port, workspaces, registered_servers, stop, started_by, os.environ.get("PATH")),
        Status(
            workspaces,
            registered_servers,
            session_manager,
            clients,
            own_servers,
            store,
            installation,
            address,
            routes.open_requests,
            waiting_calls,
            client_processes.notice_ends,
            features.values(),
        ),
        Measures(workspaces, session_manager, forwarder.admission.buffers, features.values()),
        _guest_gate(proof_reason, features.values()),
        waiting_calls,
        features,
        installation,
        forwarder.admission.buffers,
        client_processes,
    )


def _fast_path(  # noqa: PLR0917  what it asks whether a route still holds
    routes: McpRoutes,
    dispatch: Dispatch,
    session_manager: SessionManager,
    clients: RecentClients,
    settings: Settings,
    profiles: ClientProfiles,
) -> FastPath | None:
    """The fast path of calls; with None instead, everything is right, only slower.

    This, the import of `CachedPath` and the folder `manager/route_cache/` are all that there is of it.
    """
    return CachedPath(
        routes,
        workspaces=dispatch.workspaces,
        sessions=session_manager.sessions,
        clients=clients,
        forwarder=dispatch.forwarder,
        settings=settings,
        profiles=profiles,
    )


def _guest_gate(proof_reason: str | None, features: Iterable[DaemonPart]) -> GuestGate | None:
    """Who decides about peers that are not known to be this user; nobody passes if only a proof lets in."""
    without_gate = None if proof_reason is None else ClosedGate(proof_reason)
    return next(filter(None, (part.guest_gate() for part in features)), without_gate)


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None
