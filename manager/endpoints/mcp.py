"""Serves the MCP routes `/mcp` and `/w/{workspace_id}/mcp`: POST, GET and DELETE.

`McpRoutes.serve` is the entry point: it classifies a request, passes it to the endpoint of session clients or
of stateless clients, and writes the reply. Answers to forms, which a person gives, are not taken from
programs that workspace servers started: a model could otherwise approve its own calls through a program of
its own that is an MCP client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import Inbound, Rejection, classify
from lm_tools_bridge.protocol.jsonrpc import Request, Response
from lm_tools_bridge.protocol.names import Era
from manager.answers import replies
from manager.answers.dispatch import Dispatch, unknown_workspace
from manager.answers.exchange import (
    OBSERVED_METHODS,
    Exchange,
    brought_trace,
    client_record,
    exchange_of,
    make_trace_number,
)
from manager.answers.replies import AnyReply
from manager.answers.upstream_request import PreparedCall, prepare_call
from manager.configuration.settings import Settings
from manager.endpoints.session_requests import NOT_ALLOWED, NoSession, SessionEndpoint, SessionRoutes
from manager.endpoints.stateless import StatelessEndpoint
from manager.http.request import HttpRequest, OpenRequests, log_fault
from manager.relay import direct_relay
from manager.relay.direct_relay import DirectRelay
from manager.relay.fast_path import FastPath
from manager.relay.writer import Writer
from manager.routing.admission import check_json
from manager.routing.client_profiles import ClientProfiles
from manager.routing.request_metadata import METHODS
from manager.routing.state.clients import RecentClients
from manager.routing.state.session_table import Session
from manager.sessions.client_processes import ClientProcesses

NOT_A_PERSON: Final = Refusal(
    Reason.APPROVAL_REQUIRED,
    "programs that a workspace server or an agent started may not answer for the user",
    "the user answers in a client of theirs, on the page (lmtb ui), or in a terminal with: lmtb approvals",
    delivered="no",
)
_ACTION: Final = "action"
"""A member of every answer to a form, and of no answer to a request for roots or a completion."""


def answers_form(params: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the parameters of a request bring the answer to a form, however its JSON is written."""
    responses = params.get("inputResponses")
    answers = () if responses is None else jsonrpc.members_of(responses).values()
    return any(_ACTION in jsonrpc.members_of(answer) for answer in answers)


async def admit_answer(
    http_request: HttpRequest, exchange: Exchange, answer: Callable[[], Coroutine[Any, Any, AnyReply]]
) -> AnyReply:
    """The reply to a request that brings a person's answer; a refusal where no person gave it."""
    if await http_request.is_from_own_child():
        return replies.refuse(exchange, NOT_A_PERSON)
    return await answer()


async def take_answer(hear: Callable[[], None], http_request: HttpRequest) -> None:
    """Take the answer that a session client posted with `hear`; refuse it where no person gave it."""
    if await http_request.is_from_own_child():
        http_request.respond(403, NOT_A_PERSON.as_error(None))
        return
    hear()
    http_request.respond(202)


OwnTask = Callable[[Coroutine[Any, Any, Any], str], asyncio.Task[Any]]
"""Runs a coroutine in a task with this name; the owner of the tasks cancels those that are left at a stop."""
Make = Callable[[], Coroutine[Any, Any, AnyReply]]
"""Makes the coroutine that returns a reply."""


class McpRoutes:
    """Answers the requests to the MCP routes.

    Attributes:
        open_requests: the requests that are not answered yet; new ones are refused with 503 at a stop.
        settings: size and time limits.
        fast_path: answers calls that are like earlier ones; None where every call takes the general way.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        legacy: SessionEndpoint,
        modern: StatelessEndpoint,
        settings: Settings,
        profiles: ClientProfiles,
        *,
        own_task: OwnTask,
        clients: RecentClients,
        client_processes: ClientProcesses,
    ) -> None:
        self.open_requests = OpenRequests()
        self.fast_path: FastPath | None = None
        self._dispatch = dispatch
        self._legacy = legacy
        self._sessions = legacy.session_manager.sessions
        self._modern = modern
        self.settings = settings
        self._is_observed = dispatch.forwarder.is_observed
        self._makes_traces = self._is_observed and settings.make_trace_context
        self._profiles = profiles
        self._own_task = own_task
        self._clients = clients
        self._client_processes = client_processes
        self._of_session = SessionRoutes(legacy, dispatch.workspaces, self.open_requests)

    def serve(self, http_request: HttpRequest) -> None:
        """Answer a request. An unexpected error is answered with 500, or closes the connection."""
        try:
            match http_request.metadata.method:
                case "POST":
                    self._post(http_request)
                case "GET":
                    http_request.run(self._guarded(http_request, self._of_session.get))
                case "DELETE":
                    http_request.run(self._guarded(http_request, self._of_session.delete))
                case _:
                    http_request.respond(405, NOT_ALLOWED, {"Allow": ", ".join(METHODS)})
        except Exception as fault:  # noqa: BLE001  the last line of defence
            self.failed(http_request, fault)

    async def _guarded(
        self, http_request: HttpRequest, work: Callable[[HttpRequest], Awaitable[None]]
    ) -> None:
        try:
            await work(http_request)
        except Exception as fault:  # noqa: BLE001  the last line of defence
            self.failed(http_request, fault)

    def failed(self, http_request: HttpRequest, fault: BaseException) -> None:
        """Log an unexpected error; respond with 500, or close the connection if the response has begun."""
        if isinstance(fault, ConnectionError) and http_request.is_begun:
            http_request.abort()  # the client has disconnected or is waiting for the rest
            return
        log_fault(fault, http_request.metadata.method)
        if http_request.is_begun:
            http_request.abort()  # tells the client that the response is incomplete
        else:
            http_request.respond(500, b'{"error": "Internal Server Error"}')

    # -- POST ---------------------------------------------------------------------------------------------

    def _post(self, http_request: HttpRequest) -> None:
        """Answer a POST, which carries one message."""
        body, metadata = http_request.body, http_request.metadata
        problem = check_json(body)
        inbound = (
            Rejection(400, jsonrpc.PARSE_ERROR, str(problem))
            if problem is not None
            else classify(metadata.fields, body)
        )
        if isinstance(inbound, Rejection):
            http_request.respond(inbound.status, inbound.body())
            return
        message = inbound.message
        if isinstance(message, Request) and self.open_requests.refuse_when_draining(http_request, message.id):
            return
        path = metadata.workspace
        if path is not None and self._dispatch.workspaces.get(path) is None:
            known = [workspace.id for workspace in self._dispatch.workspaces]
            http_request.respond(404, unknown_workspace(path, known).as_error(_id_of(inbound)))
        elif inbound.era is Era.MODERN:
            self._modern_post(http_request, inbound)
        else:
            self._legacy_post(http_request, inbound)

    def _modern_post(self, http_request: HttpRequest, inbound: Inbound) -> None:
        if not isinstance(inbound.message, Request):
            http_request.respond(202)
            return
        exchange = exchange_of(http_request.metadata, inbound, inbound.message, None, self._profiles)
        self._note(exchange, http_request)
        self._answer(http_request, exchange, partial(self._modern.answer, exchange))

    def _legacy_post(self, http_request: HttpRequest, inbound: Inbound) -> None:
        message, identity = inbound.message, http_request.session
        if not isinstance(message, Request):
            known = self._legacy.session(identity, uses=False)
            if isinstance(known, Session):
                hear = partial(self._legacy.heard, known, message)
                if isinstance(message, Response) and self._legacy.is_form(known, message):
                    http_request.run(self._guarded(http_request, partial(take_answer, hear)))
                    return
                hear()
            http_request.respond(202)
        elif message.method == names.INITIALIZE:
            exchange = exchange_of(http_request.metadata, inbound, message, None, self._profiles)
            self._answer_in_task(http_request, exchange, partial(self._legacy.initialize, exchange))
        else:
            came = http_request.received_at
            session = None if identity is None else self._sessions.get(identity, came)
            if session is not None:
                self._in_session(http_request, inbound, message, session)
            else:
                http_request.run(
                    self._guarded(http_request, partial(self._without_session, inbound, message))
                )

    async def _without_session(self, inbound: Inbound, message: Request, http_request: HttpRequest) -> None:
        session = await self._legacy.session_for(inbound, http_request.session)
        if isinstance(session, NoSession):
            http_request.respond(session.status, session.body(message.id))
        elif isinstance(session, Refusal):
            http_request.respond(503, session.as_error(message.id), {"Retry-After": "60"})
        else:
            self._in_session(http_request, inbound, message, session)

    def _in_session(
        self, http_request: HttpRequest, inbound: Inbound, message: Request, session: Session
    ) -> None:
        exchange = exchange_of(http_request.metadata, inbound, message, session, self._profiles)
        exchange.headers[headers.SESSION] = session.id
        self._note(exchange, http_request)
        if self.open_requests.is_open(session, exchange.key):
            text = "this id is still being answered in this session; use a new one"
            http_request.respond(400, jsonrpc.error(message.id, jsonrpc.INVALID_REQUEST, text))
            return
        self._answer(http_request, exchange, partial(self._legacy.answer, exchange, session))

    def _note(self, exchange: Exchange, http_request: HttpRequest) -> None:
        exchange.begun = came = http_request.received_at
        peer = http_request.peer()
        client, exchange.seen = client_record(exchange, came, peer)
        exchange.observed_client = client if self._is_observed else None
        self._clients.record(client, exchange.seen)
        if peer is not None and not peer.is_sought:
            self._client_processes.seek(peer)
        exchange.made_trace = http_request.made_trace
        is_call = exchange.message.method in OBSERVED_METHODS
        if is_call and self._makes_traces and not brought_trace(exchange):
            exchange.made_trace = exchange.made_trace or make_trace_number()

    # -- the general way ----------------------------------------------------------------------------------

    def _answer(self, http_request: HttpRequest, exchange: Exchange, make: Make) -> None:
        """Answer a request: a call that is prepared and can be sent now without a task, all others in one.

        Args:
            make: makes the reply to a request that is not prepared.
        """
        if answers_form(exchange.params):
            self._answer_in_task(http_request, exchange, partial(admit_answer, http_request, exchange, make))
            return
        call = prepare_call(self._dispatch.workspaces, self._dispatch.forwarder, exchange)
        if call is None:
            self._answer_in_task(http_request, exchange, make)
        elif self._needs_task(exchange) or not call.send_now():
            self._answer_in_task(http_request, exchange, self._reply_maker(call))
        else:
            self.relay_directly(http_request, call, direct_relay.PATIENCE_S)

    def _needs_task(self, exchange: Exchange) -> bool:
        """Whether the response is an event stream, or a list of tools has to be awaited before it."""
        return not exchange.accepts_json or (exchange.session is not None and exchange.session.list_due)

    def _reply_maker(self, call: PreparedCall) -> Make:
        session = call.exchange.session
        return call.reply if session is None else partial(self._legacy.reply_to_call, call, session)

    def relay_directly(self, http_request: HttpRequest, call: PreparedCall, patience_s: float) -> DirectRelay:
        """Relay the response to a call that was sent; after `patience_s` seconds, in a task."""
        relay = DirectRelay(self, http_request, call, patience_s)
        self.open_requests.begin(call.exchange.session, call.exchange.key, relay.cancel)
        return relay

    def offer(self, http_request: HttpRequest, call: PreparedCall) -> None:
        """Offer a call to the fast path, just before its response is written."""
        if self.fast_path is not None:
            self.fast_path.offer(http_request, call)

    def ended(self, call: PreparedCall) -> None:
        """Note that a direct relay has ended: the call is answered, abandoned or continues in a task."""
        self.open_requests.end(call.exchange.session, call.exchange.key)

    def continue_in_task(self, http_request: HttpRequest, call: PreparedCall) -> None:
        """Continue a call of the direct relay in a task, from its current state."""
        task = self._answer_in_task(http_request, call.exchange, self._reply_maker(call))
        if task is None:
            call.in_flight.give_up()
        else:  # a task cancelled before its first step does not abandon the call itself
            task.add_done_callback(lambda done: call.in_flight.give_up() if done.cancelled() else None)

    def _answer_in_task(
        self, http_request: HttpRequest, exchange: Exchange, make: Make
    ) -> asyncio.Task[None] | None:
        """Answer in a task; None if the client has disconnected, so that nothing is answered.

        The task of a stateless request is cancelled when its client disconnects. That of a session survives,
        and ends with `notifications/cancelled`.
        """
        session, key = exchange.session, exchange.key
        streams = None if exchange.is_modern else self._legacy.session_manager.streams
        writer = Writer(http_request, exchange, self.settings.response_limit, streams)
        work = self._write_answer(http_request, writer, make)
        if session is None:
            task = http_request.run(work)
        else:
            task = self._own_task(work, "request")
            http_request.on_disconnect = None
        if task is not None:
            self.open_requests.begin(session, key, task.cancel)
            task.add_done_callback(partial(self._task_ended, session, key, writer))
        return task

    def _task_ended(
        self, session: Session | None, key: bytes, writer: Writer, task: asyncio.Task[None]
    ) -> None:
        self.open_requests.end(session, key)
        if session is not None and task.cancelled():
            writer.end()

    async def _write_answer(self, http_request: HttpRequest, writer: Writer, make: Make) -> None:
        try:
            await writer.answer(make())
        except Exception as fault:  # noqa: BLE001  the last line of defence
            self.failed(http_request, fault)


def _id_of(inbound: Inbound) -> bytes | None:
    return inbound.message.id if isinstance(inbound.message, Request) else None
