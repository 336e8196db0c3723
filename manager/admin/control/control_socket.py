"""Serves the control socket: registration of external servers, and requests of command line verbs.

This module is the HTTP layer: `lm_tools_bridge/protocol/internal/registration.py` defines the messages,
`services.py` the operations. `/allocate` also exists on the TCP port (`allocate_routes`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal.registration import (
    Allocate,
    Bye,
    Heartbeat,
    InvalidPayload,
    Resolve,
    Shutdown,
)
from manager import __version__
from manager.admin.control.control_messages import (
    invalid,
    method_not_allowed,
    read_object,
    refusal,
    success,
)
from manager.admin.control.decisions import decisions_by_persons
from manager.admin.control.renewals import TIMES, Renewals
from manager.admin.control.services import ServerQuestion, Services
from manager.disk.folder import CwdProblem, CwdProblemKind
from manager.http import lazy_aiohttp as web
from manager.routing.state.port_leases import PortExhausted
from manager.startup.replacement import Unusable

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

_Message = TypeVar("_Message")


def make_control_app(
    services: Services, renewals: Renewals, for_anyone: Collection[str] = ()
) -> web.Application:
    """The control socket's application. Further routes may be added before it is started.

    Heartbeats that say nothing new are answered before it (`manager/listener/control_listener.py`).

    Args:
        for_anyone: routes, to be added by features, that decide nothing.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not services.peer_allowed(request.transport):
            return refusal(403, "forbidden")
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = refusal(404, "not_found")
        except web.HTTPMethodNotAllowed as error:
            response = method_not_allowed(error.allowed_methods)
        response.headers["Server"] = f"lm-tools-bridge/{__version__}"
        return response

    app = web.Application(middlewares=[guard, decisions_by_persons(for_anyone)])
    app.add_routes(control_routes(services, renewals))
    return app


def control_routes(services: Services, renewals: Renewals) -> list[web.RouteDef]:
    """The routes of the control socket, without the peer check."""
    control = _Control(services, renewals)
    return [
        web.get("/health", control.health),
        web.get("/status", control.status),
        web.get("/list", control.list_instances),
        web.post("/allocate", allocate_handler(services)),
        web.post("/heartbeat", control.heartbeat),
        web.post("/bye", _parsed(Bye.parse, control.bye)),
        web.post("/resolve", _parsed(Resolve.parse, control.resolve)),
        web.post("/ready", _parsed(Resolve.parse, control.ready)),
        web.post("/inspect", _parsed(_ServerQuery.parse, control.inspect)),
        web.post("/refresh", _parsed(_ServerQuery.parse, control.refresh)),
        web.post("/restart_sources", _parsed(_ServerQuery.parse, control.restart_sources)),
        web.post("/calls", _parsed(_ServerQuery.parse, control.calls)),
        web.post("/stop_call", control.stop_call),
        web.post("/shutdown", _parsed(Shutdown.parse, control.shutdown)),
        web.post("/restart", _parsed(Shutdown.parse, control.restart)),
    ]


def allocate_handler(services: Services) -> Handler:
    """The handler of `POST /allocate`, on the socket and on the port alike."""

    async def allocate(message: Allocate) -> web.Response:
        port = services.allocate(message)
        return refusal(409, "port_exhausted") if isinstance(port, PortExhausted) else success(port=port)

    return _parsed(Allocate.parse, allocate)


def allocate_routes(services: Services) -> list[web.RouteDef]:
    """The only route of the control plane on the port: behind admission there and the caller check here."""
    answer = allocate_handler(services)

    async def allocate(request: web.Request) -> web.StreamResponse:
        if not services.peer_allowed(request.transport):
            return refusal(403, "forbidden")
        return await answer(request)

    return [web.post("/allocate", allocate)]


class _ServerQuery(NamedTuple):
    """A request about all sources of a folder's workspace, or about one."""

    cwd: str
    source: str | None
    starts: bool

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> _ServerQuery | InvalidPayload:
        message = Resolve.parse(payload)
        if isinstance(message, InvalidPayload):
            return message
        source = payload.get("source")
        starts = payload.get("start") is not False
        return cls(message.cwd, source if isinstance(source, str) else None, starts)


class _Control:
    def __init__(self, services: Services, renewals: Renewals) -> None:
        self._services = services
        self._renewals = renewals

    async def health(self, request: web.Request) -> web.Response:
        return success()

    async def status(self, request: web.Request) -> web.Response:
        return success(**msgspec.to_builtins(self._services.status()))

    async def list_instances(self, request: web.Request) -> web.Response:
        return success(instances=msgspec.to_builtins(list(self._services.list_instances())))

    async def heartbeat(self, request: web.Request) -> web.Response:
        """Register or check a server. The connection ends: on a new one, renewals do not get this far."""
        response = await self._heartbeat(request)
        response.force_close()
        return response

    async def _heartbeat(self, request: web.Request) -> web.Response:
        payload = await read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = Heartbeat.parse(
            payload, own_port=self._services.port, owns_process=self._services.owns_process
        )
        if isinstance(message, InvalidPayload):
            return invalid(message)
        registered = await self._services.heartbeat(message)
        self._renewals.remember(payload)
        if registered.first and registered.record.secret is not None:
            return success(**TIMES, secret=registered.record.secret)
        return success(**TIMES)

    async def bye(self, message: Bye) -> web.Response:
        if message.session_id is not None:
            self._services.bye(message.session_id)
        return success()

    async def resolve(self, message: Resolve) -> web.Response:
        resolution = await self._services.resolve(message.cwd)
        if resolution is None:
            return refusal(404, "not_found")
        if isinstance(resolution, CwdProblem):
            if resolution.kind is CwdProblemKind.BUSY:
                return refusal(503, "overloaded")
            return invalid(InvalidPayload("cwd", resolution.kind.value, "invalid_cwd"))
        return success(match=msgspec.to_builtins(resolution))

    async def ready(self, message: Resolve) -> web.Response:
        """Start the server of a folder's workspace now, as a handshake does, and wait for it."""
        unready = await self._services.ready(message.cwd)
        return success() if unready is None else _unanswered(unready)

    async def inspect(self, query: _ServerQuery) -> web.Response:
        """All tools of a folder's workspace, also hidden ones, with sources and issues."""
        return await self._ask_server(query, "inspect")

    async def refresh(self, query: _ServerQuery) -> web.Response:
        """List the sources of a folder's workspace again, and retry sources that are down at once."""
        return await self._ask_server(query, "refresh")

    async def restart_sources(self, query: _ServerQuery) -> web.Response:
        """Restart the sources of a folder's workspace, or one of them, and say what was done to each."""
        return await self._ask_server(query, "restart_sources")

    async def calls(self, query: _ServerQuery) -> web.Response:
        """The calls of a folder's workspace: those that run, and the last ones. Starts no server."""
        return await self._ask_server(query, "calls")

    async def stop_call(self, request: web.Request) -> web.Response:
        """Stop the call with this number, for a person whose manager is on another host."""
        payload = await read_object(request)
        if isinstance(payload, web.Response):
            return payload
        query = _ServerQuery.parse(payload)
        if isinstance(query, InvalidPayload):
            return invalid(query)
        return await self._ask_server(query, "stop_call")

    async def _ask_server(self, query: _ServerQuery, ask: ServerQuestion) -> web.Response:
        answer = await self._services.ask_server(query.cwd, ask, query.source, starts=query.starts)
        if isinstance(answer, Refusal):
            return _unanswered(answer)
        if ask in ("refresh", "restart_sources") and not json.loads(answer)["ok"]:
            return refusal(404, "unknown_source")
        return web.Response(body=answer, content_type="application/json")

    async def shutdown(self, message: Shutdown) -> web.Response:
        version = self._services.status().version
        if message.expected_version not in (None, version):
            return refusal(409, "version_mismatch", version=version)
        self._services.shutdown(message.reason, keep_servers=message.keep_servers)
        return success()

    async def restart(self, message: Shutdown) -> web.Response:
        """Replace this process by the installed program."""
        version = await self._services.restart(message.reason, keep_servers=message.keep_servers)
        if isinstance(version, Unusable):
            text = f"the installed program cannot be started: {version.reason}"
            return refusal(409, "installation_unusable", message=text)
        return success(version=version)


def _parsed(
    parse: Callable[[dict[str, Any]], _Message | InvalidPayload],
    handle: Callable[[_Message], Awaitable[web.Response]],
) -> Handler:
    """A handler that reads and parses the body, and calls `handle`; an invalid body is refused."""

    async def handler(request: web.Request) -> web.Response:
        payload = await read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = parse(payload)
        return invalid(message) if isinstance(message, InvalidPayload) else await handle(message)

    return handler


def _unanswered(refused: Refusal) -> web.Response:
    """The response for a folder whose server cannot be used, or that is in no workspace."""
    status = 503 if refused.reason is Reason.WORKSPACE_SERVER_OFFLINE else 404
    return refusal(status, **{"message": refused.message, **refused.data()})
