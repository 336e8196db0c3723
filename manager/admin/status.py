"""Builds `/mcp/status`, `/mcp/health` and `/mcp/log` from the live state of the manager.

They never show full session ids, arguments, results or secrets.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

from lm_tools_bridge.machine.process_facts import usage_of
from lm_tools_bridge.protocol import jsonrpc
from manager import __version__
from manager.answers.list_adaptation import OwnServersLookup
from manager.http.request import OpenRequests
from manager.installation import Installation
from manager.log import recent_lines, short
from manager.routing.matching import workspace_id
from manager.routing.state.client_overview import ClientRow, client_rows, count_connected, name_and_version
from manager.routing.state.clients import Client, RecentClients, RequestRecord
from manager.routing.state.registrations import Registration
from manager.routing.state.session_table import Session
from manager.sessions.session_manager import SessionManager
from manager.state_file import Store
from manager.supervision import presence
from manager.supervision.instance import Figures, Instance, Percentiles, percentiles, sum_counts
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from manager.waiting_calls import NOBODY, WaitingCalls

_CACHED: Final = 1024
"""Seconds whose texts are kept: the times of many servers lie in few of them."""


class ReportingPart(Protocol):
    """A part of the daemon that says how it is."""

    def status(self) -> Mapping[str, Any]:
        """The members that it adds to the status."""

    def problem(self) -> str | None:
        """Why it cannot do its work; None if it can."""


class Status:
    """Builds the status payload. `now` is monotonic seconds, `wall` seconds since 1970."""

    def __init__(  # noqa: PLR0917  each is shown
        self,
        workspaces: Workspaces,
        registered_servers: RegisteredServers,
        session_manager: SessionManager,
        clients: RecentClients,
        own_servers: OwnServersLookup,
        store: Store,
        installation: Installation,
        address: str,
        open_requests: OpenRequests,
        waiting_calls: WaitingCalls = NOBODY,
        notice_ended_clients: Callable[[float], None] = lambda _: None,
        features: Iterable[ReportingPart] = (),
    ) -> None:
        self._waiting_calls = waiting_calls
        self._notice_ended_clients = notice_ended_clients
        self._features = tuple(features)
        self._workspaces = workspaces
        self._registered_servers = registered_servers
        self._session_manager = session_manager
        self._clients = clients
        self._own_servers = own_servers
        self._store = store
        self._installation = installation
        self._address = address
        self._last_non_empty: float | None = None
        self._open_requests = open_requests

    def payload(self, now: float, wall: float, started_at: float) -> dict[str, Any]:
        """The complete status as a JSON object."""
        clock = Clock(now, wall)
        instances = [self._instance(entry, clock) for entry in self._workspaces if entry.supervisor.instance]
        instances += [
            self._registered(entry, clock) for entry in self._registered_servers.registrations.records()
        ]
        if instances:
            self._last_non_empty = now
        self._notice_ended_clients(now)
        rows = client_rows(self._session_manager.sessions, self._clients, now)
        usage, problems = usage_of(os.getpid()), [part.problem() for part in self._features]
        degraded = [why for why in (self._store.degraded, self._installation.problem, *problems) if why]
        return {
            "ok": True,
            "version": __version__,
            "installation": {"state": self._installation.state, "version": self._installation.version},
            "pid": os.getpid(),
            "address": self._address,
            "state": "draining" if self._open_requests.is_draining else "degraded" if degraded else "ready",
            "degraded": degraded,
            **clock.stamps("now", now),
            "uptimeSec": int(now - started_at),
            "rssBytes": usage[0] if usage else None,
            "cpuSec": round(usage[1], 2) if usage else None,
            "instances": len(instances),
            "instanceDetails": instances,
            "workspaces": len(self._workspaces),
            "workspaceDetails": [self._workspace(entry) for entry in self._workspaces],
            "lines": self._workspaces.remote_hosts.lines(),
            "figures": _figures(*(entry.supervisor.figures for entry in self._workspaces)),
            "approvals": self._waiting_calls.as_json(wall),
            **self._members_of_features(),
            "sessions": len(self._session_manager.sessions),
            "sessionDetails": [self._session(entry, clock) for entry in self._session_manager.sessions],
            "streams": len(self._session_manager.streams),
            "connectedClients": count_connected(rows),
            "clientDetails": [self._client_row(entry, clock) for entry in rows],
            "clients": [_client(entry, requests, clock) for entry, requests in self._clients],
            "reservations": [
                {
                    "port": lease.port,
                    "sessionId": lease.session_id,
                    "expiresInSec": int(lease.expires_at - now),
                }
                for lease in self._registered_servers.leases.current()
            ],
            **clock.stamps("lastNonEmptyAt", self._last_non_empty),
            "lastNonEmptyAgeSec": clock.age(self._last_non_empty),
        }

    def _members_of_features(self) -> dict[str, Any]:
        return {name: value for part in self._features for name, value in part.status().items()}

    def _workspace(self, workspace: Workspace) -> dict[str, Any]:
        supervisor = workspace.supervisor
        looping = supervisor.lifecycle.state.value == "crash_looping"
        return {
            "id": workspace.id,
            "root": workspace.root,
            "state": presence.state(self._workspaces, workspace),
            "restarts": supervisor.lifecycle.restarts,
            "lastExitCode": supervisor.last_exit,
            **_figures(supervisor.figures),
            "lastError": supervisor.figures.last_error,
            **({"repository": workspace.repository} if workspace.repository else {}),
            **({"stderrTail": list(supervisor.output.lines)} if looping else {}),
        }

    def _instance(self, workspace: Workspace, clock: Clock) -> dict[str, Any]:
        supervisor, instance = workspace.supervisor, workspace.supervisor.instance
        assert instance is not None  # noqa: S101  narrows the type: the caller checked it
        usage = instance.process.usage() if instance.process is not None else None
        figures, sources = supervisor.figures, presence.reported(instance, "sources")
        return {
            "sessionId": instance.id,
            "pid": instance.pid,
            "version": instance.version,
            "outdated": instance.is_outdated,
            "workspaceFolders": list(instance.folders),
            "workspaceFile": instance.workspace_file,
            "host": instance.host,
            "port": instance.port,
            **clock.stamps("lastSeen", instance.last_ok),
            "lastSeenAgeSec": clock.age(instance.last_ok),
            **clock.stamps("startedAt", instance.started_at),
            "uptimeSec": clock.age(instance.started_at),
            "workspace": workspace.id,
            "root": workspace.root,
            "owner": instance.owner,
            "kind": "workspace-server",
            "state": supervisor.lifecycle.state.value,
            "restarts": supervisor.lifecycle.restarts,
            "rssBytes": usage[0] if usage else None,
            "cpuSec": round(usage[1], 2) if usage else None,
            **_figures(figures),
            "streams": figures.streams,
            "tasks": figures.tasks,
            "lastError": figures.last_error,
            "sources": sources,
            "issues": presence.reported(instance, "issues"),
            "health": _health(instance, figures, supervisor.lifecycle.misses, supervisor.last_exit, clock),
        }

    def _registered(self, record: Registration, clock: Clock) -> dict[str, Any]:
        workspace = self._workspaces.get(workspace_id(record.root))
        figures = Figures() if workspace is None else workspace.supervisor.figures
        instance = self._registered_servers.known(record)
        last_seen = self._registered_servers.registrations.last_seen(record.session_id)
        return {
            "sessionId": record.session_id,
            "pid": record.pid,
            "workspaceFolders": list(record.workspace_folders),
            "workspaceFile": record.workspace_file,
            "host": record.host,
            "port": record.port,
            **clock.stamps("lastSeen", last_seen),
            "lastSeenAgeSec": clock.age(last_seen),
            **clock.stamps("startedAt", record.registered_at),
            "uptimeSec": clock.age(record.registered_at),
            "workspace": workspace_id(record.root),
            "root": record.root,
            "owner": "external",
            "kind": record.kind,
            "state": record.state.value,
            "cause": record.cause,
            "restarts": 0,  # the manager never restarts it
            **_figures(figures),
            "sources": [] if instance is None else presence.reported(instance, "sources"),
            "health": None if instance is None else _health(instance, figures, record.misses, None, clock),
        }

    def _session(self, session: Session, clock: Clock) -> dict[str, Any]:
        workspace = self._workspaces.get(session.workspace) if session.workspace else None
        instance = presence.serving(self._workspaces, workspace) if workspace is not None else None
        since = presence.offline_since(self._workspaces, workspace) if workspace is not None else None
        return {
            "sessionId": short(session.id),
            "era": "legacy",
            "resolveCwd": session.cwd,
            "sentCwd": session.sent_cwd,
            "workspace": session.workspace,
            "workspaceSetExplicitly": session.workspace is not None,
            "workspaceMatched": workspace is not None,
            "lastSource": session.source,
            "protocolVersion": session.revision,
            "client": {"name": session.client_name, "version": session.client_version},
            "clientRootsSupported": "roots" in jsonrpc.members_of(session.capabilities),
            "streaming": session.streaming,
            "inFlight": len(session.in_flight),
            "target": None if instance is None else presence.target_of(instance),
            **clock.stamps("offlineSince", since),
            **clock.stamps("lastSeen", session.seen),
            "lastSeenAgeSec": clock.age(session.seen),
        }

    def _client_row(self, row: ClientRow, clock: Clock) -> dict[str, Any]:
        workspace = self._workspaces.get(row.workspace) if row.workspace else None
        return {
            "name": row.name,
            "version": row.version,
            "era": row.era,
            "workspace": row.workspace,
            "folder": row.folder if workspace is None else workspace.root,
            "source": row.source,
            "state": row.state.value,
            "streaming": row.streaming,
            "sessions": row.sessions,
            "ownServers": [
                {"file": own.file, "names": sorted(own.names), "allBut": own.is_all_but}
                for own in self._own_servers.last(row.name, row.version, row.workspace)
            ],
            "pids": list(row.pids),
            **clock.stamps("lastCall", row.last_call),
            "lastCallAgeSec": clock.age(row.last_call),
        }


def _health(
    instance: Instance, figures: Figures, misses: int, exit_code: int | None, clock: Clock
) -> dict[str, Any]:
    """Whether the process lives, whether it answers, how the last call went, and how many sources it has."""
    return {
        "process": {"alive": instance.is_alive, "exitCode": exit_code},
        "answers": {
            "lastOkAgeSec": clock.age(instance.last_ok),
            "misses": misses,
            "latencyMs": None if instance.latency_s is None else round(instance.latency_s * 1000, 2),
        },
        "lastCall": {"ageSec": clock.age(figures.last_call_at), "outcome": figures.last_outcome},
        "sources": len(presence.reported(instance, "sources")),
    }


def _figures(*figures: Figures) -> dict[str, Any]:
    """Call figures of one workspace, or the sum of several. Percentiles cover the last five minutes."""
    recent = sum_counts(entry.timings.recent() for entry in figures)
    return {
        "calls": sum(entry.calls for entry in figures),
        "errors": sum(entry.errors for entry in figures),
        "inFlight": sum(entry.in_flight for entry in figures),
        "serverMs": _milliseconds(percentiles(recent.server)),
        "managerMs": _milliseconds(percentiles(recent.manager)),
    }


def _milliseconds(spread: Percentiles | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"p50": round(spread.p50 * 1000, 3), "p99": round(spread.p99 * 1000, 3)}


def _client(client: Client, requests: tuple[RequestRecord, ...], clock: Clock) -> dict[str, Any]:
    """A recent client with its last requests."""
    name, version = name_and_version(client)
    return {
        "name": name,
        "version": version,
        "era": client.era,
        "protocolVersion": client.revision,
        **clock.stamps("lastSeen", requests[-1].at),
        "lastSeenAgeSec": clock.age(requests[-1].at),
        "requests": [_request(request, clock) for request in requests],
    }


def _request(record: RequestRecord, clock: Clock) -> dict[str, Any]:
    return {
        "method": record.method,
        "ageSec": clock.age(record.at),
        "source": record.source,
        "workspace": record.workspace,
        "overruled": record.overruled,
        "contradiction": record.contradiction,
        "sent": record.claims.shown_texts(),
    }


def log_payload() -> dict[str, Any]:
    """The last log lines, oldest first."""
    return {"ok": True, "lines": list(recent_lines)}


class Clock:
    """Both clocks at the moment of one status: monotonic seconds, and seconds since 1970."""

    def __init__(self, now: float, wall: float) -> None:
        self._now = now
        self._wall = wall

    def age(self, moment: float | None) -> int | None:
        """Seconds since a moment."""
        return None if moment is None else int(self._now - moment)

    def stamps(self, name: str, moment: float | None) -> dict[str, Any]:
        """`name` in ms, `nameIso` and `nameLocal` as texts."""
        if moment is None:
            return {name: None, f"{name}Iso": None, f"{name}Local": None}
        milliseconds = int((self._wall - (self._now - moment)) * 1000)
        second, rest = divmod(milliseconds, 1000)
        iso, local = _texts(second)
        return {name: milliseconds, f"{name}Iso": f"{iso}.{rest:03}+00:00", f"{name}Local": local}


@lru_cache(_CACHED)
def _texts(second: int) -> tuple[str, str]:
    """A second in UTC and in local time."""
    universal = datetime.datetime.fromtimestamp(second, datetime.UTC)
    return f"{universal:%Y-%m-%dT%H:%M:%S}", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
