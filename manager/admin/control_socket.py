"""The control socket: where servers that somebody else started register, and where people's tools ask.

Only HTTP: what a message must look like is `protocol/internal/registration.py`, what it does is up to
`services.py`.
Success bodies hold `ok: true`, failures `ok: false` and a `reason`. `/allocate` exists on the TCP port too,
see `allocate.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from manager.admin.request_body import read_body
from manager.admin.services import ServerQuestion, Services
from manager.folder import CwdProblem
from manager.http import lazy_aiohttp as web
from manager.routing.request_heads.admission import AdmissionRefusal
from manager.routing.state.port_leases import PortExhausted
from manager.routing.state.registrations import HEARTBEAT_S, SUSPECT_AFTER_S
from protocol.errors import Reason, Refusal
from protocol.internal.registration import Allocate, Bye, Heartbeat, InvalidPayload, Resolve, Shutdown

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

MAX_BODY: Final = 1024 * 1024
BODY_S: Final = 30.0
"""Seconds in which a body has to come."""
_BODY_PROBLEMS: Final = {400: "invalid_json", 408: "body_too_late", 413: "body_too_large"}


def make_control_app(services: Services) -> web.Application:
    """The control socket's application. Further routes may be added before it is started."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not services.peer_allowed(request):
            return refusal(403, "forbidden")
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return refusal(404, "not_found")
        except web.HTTPMethodNotAllowed as error:
            return method_not_allowed(error.allowed_methods)

    app = web.Application(middlewares=[guard])
    app.add_routes(control_routes(services))
    return app


def control_routes(services: Services) -> list[web.RouteDef]:
    """The routes of the control socket, without the peer check."""
    control = _Control(services)
    return [
        web.get("/health", control.health),
        web.get("/status", control.status),
        web.get("/list", control.list_instances),
        web.post("/allocate", control.allocate),
        web.post("/heartbeat", control.heartbeat),
        web.post("/bye", control.bye),
        web.post("/resolve", control.resolve),
        web.post("/inspect", control.inspect),
        web.post("/refresh", control.refresh),
        web.post("/shutdown", control.shutdown),
    ]


class _Control:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def health(self, request: web.Request) -> web.Response:
        return _success()

    async def status(self, request: web.Request) -> web.Response:
        return _success(**msgspec.to_builtins(self._services.status()))

    async def list_instances(self, request: web.Request) -> web.Response:
        return _success(instances=msgspec.to_builtins(list(self._services.list_instances())))

    async def allocate(self, request: web.Request) -> web.Response:
        return await answer_allocate(request, self._services)

    async def heartbeat(self, request: web.Request) -> web.Response:
        payload = await _read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = Heartbeat.parse(
            payload, own_port=self._services.port, owns_process=self._services.owns_process
        )
        if isinstance(message, InvalidPayload):
            return _invalid(message)
        registered = await self._services.heartbeat(message)
        body: dict[str, Any] = {
            "ttlMs": round(SUSPECT_AFTER_S * 1000),
            "heartbeatMs": round(HEARTBEAT_S * 1000),
        }
        if registered.first and registered.record.secret is not None:
            body["secret"] = registered.record.secret
        return _success(**body)

    async def bye(self, request: web.Request) -> web.Response:
        payload = await _read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = Bye.parse(payload)
        if isinstance(message, InvalidPayload):
            return _invalid(message)
        if message.session_id is not None:
            self._services.bye(message.session_id)
        return _success()

    async def resolve(self, request: web.Request) -> web.Response:
        payload = await _read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = Resolve.parse(payload)
        if isinstance(message, InvalidPayload):
            return _invalid(message)
        found = await self._services.resolve(message.cwd)
        if found is None:
            return refusal(404, "not_found")
        if isinstance(found, CwdProblem):
            return _invalid(InvalidPayload("cwd", found.kind.value, "invalid_cwd"))
        return _success(match=msgspec.to_builtins(found))

    async def inspect(self, request: web.Request) -> web.Response:
        """All tools of a folder's workspace, shown or hidden, with sources and issues."""
        return await self._ask_server(request, "inspect")

    async def refresh(self, request: web.Request) -> web.Response:
        """Let the sources of a folder's workspace look again, and try what is down at once."""
        return await self._ask_server(request, "refresh")

    async def _ask_server(self, request: web.Request, ask: ServerQuestion) -> web.Response:
        payload = await _read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = Resolve.parse(payload)
        if isinstance(message, InvalidPayload):
            return _invalid(message)
        source = payload.get("source")
        answer = await self._services.ask_server(
            message.cwd, ask, source if isinstance(source, str) else None
        )
        if isinstance(answer, Refusal):
            status = 503 if answer.reason is Reason.WORKSPACE_SERVER_OFFLINE else 404
            return _json(status, {"ok": False, "message": answer.message, **answer.data()})
        if ask == "refresh" and not json.loads(answer)["ok"]:
            return refusal(404, "unknown_source")
        return web.Response(body=answer, content_type="application/json")

    async def shutdown(self, request: web.Request) -> web.Response:
        payload = await _read_object(request)
        if isinstance(payload, web.Response):
            return payload
        message = Shutdown.parse(payload)
        if isinstance(message, InvalidPayload):
            return _invalid(message)
        version = self._services.status().version
        if message.expected_version not in (None, version):
            return refusal(409, "version_mismatch", version=version)
        self._services.shutdown(message.reason, keep_servers=message.keep_servers)
        return _success()


async def answer_allocate(request: web.Request, services: Services) -> web.Response:
    """Answer `POST /allocate`, on the socket and on the port alike."""
    payload = await _read_object(request)
    if isinstance(payload, web.Response):
        return payload
    message = Allocate.parse(payload)
    if isinstance(message, InvalidPayload):
        return _invalid(message)
    port = services.allocate(message)
    return refusal(409, "port_exhausted") if isinstance(port, PortExhausted) else _success(port=port)


def refusal(status: int, reason: str, **members: object) -> web.Response:
    """A failure of the control plane: `{"ok": false, "reason": …}` and further members."""
    return _json(status, {"ok": False, "reason": reason, **members})


def method_not_allowed(allowed: Iterable[str]) -> web.Response:
    """The refusal of a method, naming those that would do."""
    response = refusal(405, "method_not_allowed")
    response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _success(**members: object) -> web.Response:
    return _json(200, {"ok": True, **members})


def _invalid(message: InvalidPayload) -> web.Response:
    return refusal(400, message.reason, field=message.field, problem=message.problem)


def _json(status: int, body: Mapping[str, object]) -> web.Response:
    # ASCII escapes carry lone surrogates too: paths may hold bytes that are no UTF-8
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")


async def _read_object(request: web.Request) -> dict[str, Any] | web.Response:
    """The body as a JSON object, or the refusal. The cap holds whatever the application's own one is."""
    body = await read_body(request, MAX_BODY, BODY_S)
    if isinstance(body, AdmissionRefusal):
        return refusal(body.status, _BODY_PROBLEMS[body.status])
    try:
        payload = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        payload = None
    return payload if isinstance(payload, dict) else refusal(400, "invalid_json")
