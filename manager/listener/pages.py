"""Makes the aiohttp runners: all routes of the port but those of MCP, and the control socket.

One middleware stands in front of all routes, 404 and 405 included. It applies the rules of
`routing/admission.py` and the peer check, and gives all responses the same header fields and errors the same
shape. `connection.py` has checked the head already if the request came through `runner.listen`; checking it
again makes the rules hold for any other way a request may come in.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from manager.admin.control.control_socket import make_control_app
from manager.admin.control.project_command import ServerCommand, ToolChanges
from manager.admin.control.renewals import Renewals
from manager.admin.control.services import Services
from manager.admin.measures import TakeSnapshot
from manager.admin.routes import diagnosis_routes, make_app
from manager.configuration.paths import Paths
from manager.features import AddedRoutes, DaemonPart
from manager.http import lazy_aiohttp as web
from manager.http.request import log_fault
from manager.listener.connection import ClientConnection
from manager.listener.connections import Connections
from manager.listener.peer_identity import OTHER_USER, judge
from manager.routing.admission import (
    ANSWER_HEADERS,
    AdmissionRefusal,
    RequestHead,
    refusal_body,
    refuse_request,
)

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

_started: ContextVar[web.StreamResponse | None] = ContextVar("started", default=None)
"""The response to this task's request, once its head is written."""


def install_admission(app: web.Application, connections: Connections) -> None:
    """Install the middleware before all others in the application; call it once, before the set-up.

    Raises:
        ValueError: a route answers HEAD, OPTIONS or every method, and so escapes the 405 for unknown methods.
    """
    for route in app.router.routes():
        if route.method in ("HEAD", "OPTIONS", "*"):
            raise ValueError(f"route {route!r} answers {route.method}; name its methods, allow_head=False")
    app.middlewares.insert(0, _middleware(connections))
    app.on_response_prepare.append(_prepare)


def refusal_response(request: web.Request, refusal: AdmissionRefusal) -> web.Response:
    """Render a refusal; it closes the connection, because the bytes that follow cannot be trusted."""
    body = refusal_body(refusal, request.method, request.raw_path)
    response = _json_response(refusal.status, body, dict(refusal.headers))
    response.force_close()
    return response


def _middleware(connections: Connections) -> Middleware:
    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = _connection(request)
        _started.set(None)
        response = await _answer(request, handler, connections)
        await _send(request, response)
        if connection is not None:
            connection.message_done(is_last=connection.is_last_by_framing or not response.keep_alive)
        return response

    return admit


def _connection(request: web.Request) -> ClientConnection | None:
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, ClientConnection) else None


def _peer_refusal(
    request: web.Request, facts: RequestHead, connections: Connections
) -> AdmissionRefusal | None:
    """Check the peer where `ClientConnection` has not; a closed connection is refused."""
    if _connection(request) is not None or (connections.peer_check is None and connections.gate is None):
        return None
    transport = request.transport
    if transport is None:
        return OTHER_USER
    judged = judge(connections.peer_check, connections.gate, transport, transport.abort)
    return judged if judged is None or isinstance(judged, AdmissionRefusal) else judged.refuse(facts, None)


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    # aiohttp would do this after the middleware, and finds it done. It is done here, before `message_done`,
    # so that the response to a pipelined request cannot overtake this one.
    with contextlib.suppress(ConnectionError):  # the client disconnected; aiohttp sees it too
        await response.prepare(request)
        await response.write_eof()


async def _answer(request: web.Request, handler: Handler, connections: Connections) -> web.StreamResponse:
    try:
        facts = RequestHead(request.method, request.raw_path, request.raw_headers)
        refusal = refuse_request(facts, connections.rules) or _peer_refusal(request, facts, connections)
        if refusal is not None:
            connections.log.note(refusal)
            return refusal_response(request, refusal)
        return await handler(request)
    except web.HTTPException as answer:
        return _translated(answer)
    except Exception as fault:  # noqa: BLE001  whatever it is, the client gets JSON
        return _failed(request, fault)


def _translated(answer: web.HTTPException) -> web.Response:
    # aiohttp's Allow is sorted; its fields about the body describe the text that is replaced.
    headers = {k: v for k, v in answer.headers.items() if k not in ("Content-Type", "Content-Length")}
    if isinstance(answer, web.HTTPMethodNotAllowed):
        headers["Allow"] = ", ".join(sorted(answer.allowed_methods))
    return _json_response(answer.status, _error_body(answer.reason), headers)


def _failed(request: web.Request, fault: Exception) -> web.StreamResponse:
    started = _started.get()
    if started is None or not isinstance(fault, ConnectionError):
        log_fault(fault, request.method)
    if started is None:
        return _json_response(500, _error_body("Internal Server Error"), {})
    if request.transport is not None:
        # A part of the response is written: only an unclean end tells the client that it is incomplete.
        request.transport.abort()
    return started


def _error_body(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def _json_response(status: int, body: bytes, headers: Mapping[str, str]) -> web.Response:
    return web.Response(
        status=status, body=body, headers=headers, content_type="application/json", charset="utf-8"
    )


async def _prepare(request: web.Request, response: web.StreamResponse) -> None:
    _started.set(response)
    response.headers.pop("Server", None)  # names versions; nobody needs them
    for name, value in ANSWER_HEADERS:
        response.headers.setdefault(name, value)
    connection = _connection(request)
    if connection is not None and connection.is_last_by_framing:
        response.force_close()
        response.headers["Connection"] = "close"


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
