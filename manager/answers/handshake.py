"""Performs the handshake (`lmToolsBridge.requestWorkspaceMCPServer`); answers for the manager's resources.

Steps: find the workspace of the folder, start its server, check its health, bind the session, discover the
tools, answer. A refusal at any step leaves an existing binding unchanged. The resource of the handshake says
what a handshake found, without starting anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.answers import replies
from manager.answers.catalog import Catalog
from manager.answers.exchange import Exchange, Located
from manager.answers.list_adaptation import ListAdaptation
from manager.answers.lists import fingerprint
from manager.answers.replies import Events, Plain, Reply
from manager.answers.workspace_lookup import conflicting
from manager.log import logger, short
from manager.routing.discovery import CALL_TOOL_TEXT, Entry, handshake_payload, handshake_summary
from manager.routing.remote_address import split_root
from manager.routing.resolution import WorkspaceSource
from manager.routing.state.session_table import Session
from manager.supervision import presence
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from manager.upstream.failures import UpstreamFailure

PROGRESS_S = 1.0
"""Seconds between progress notifications while a server starts. A server usually starts within one, so that
most clients see none; those that count silence allow 60 s or more."""


class HandshakeSessions(Protocol):
    """What a handshake needs of the session manager."""

    async def bind(self, session: Session, workspace: str, cwd: str) -> None:
        """Bind the session to a workspace and save that."""

    def notify_lists_changed(self, session: Session) -> bool:
        """Notify the session on its server stream that all lists changed; False if none is open."""

    def expect_tools_list(self, session: Session) -> None:
        """Make `wait_for_tools_list` wait for the next tool list."""

    async def wait_for_tools_list(self, session: Session, seconds: float) -> None:
        """Wait until the session was answered a tool list since `expect_tools_list`, at most `seconds`."""

    def handshake_lock(self, session: Session) -> asyncio.Lock:
        """The lock that serialises handshakes of a session."""


class HandshakeSuccess(msgspec.Struct, frozen=True):
    """A successful handshake: its payload, and the workspace's tools."""

    payload: dict[str, Any]
    entries: list[Entry]


class Handshakes:
    """Performs handshakes for session clients and stateless clients."""

    def __init__(
        self,
        workspaces: Workspaces,
        catalog: Catalog,
        adaptation: ListAdaptation,
        session_manager: HandshakeSessions,
        dependencies: Dependencies,
    ) -> None:
        self._workspaces = workspaces
        self._catalog = catalog
        self._adaptation = adaptation
        self._session_manager = session_manager
        self._dependencies = dependencies

    async def answer(self, exchange: Exchange, cwd: object, *, bare: bool = False) -> Reply:
        """Answer a handshake.

        Args:
            exchange: the request; its session, if it has one, is bound on success.
            cwd: the decoded `cwd` argument, of any type.
            bare: whether the request is the JSON-RPC method, whose result is the payload itself.
        """
        return Events(self._messages(exchange, cwd, bare=bare))

    async def _messages(self, exchange: Exchange, cwd: object, *, bare: bool) -> AsyncGenerator[bytes]:
        work = asyncio.create_task(self._serialised(exchange, cwd), name="handshake")
        try:
            token = exchange.progress_token if exchange.accepts_events else None
            count = 0
            while token is not None and not (await asyncio.wait({work}, timeout=PROGRESS_S))[0]:
                count += 1
                yield _progress(token, count)
            outcome = await work
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work
        if isinstance(outcome, Refusal):
            yield outcome.as_error(exchange.message.id) if bare else replies.refusal(exchange, outcome)
            return
        async for message in self._list_changes(exchange, outcome):
            yield message
        yield self._result(exchange, outcome, bare=bare)

    def _result(self, exchange: Exchange, success: HandshakeSuccess, *, bare: bool) -> bytes:
        if bare:
            return jsonrpc.result(exchange.message.id, success.payload)
        content = [{"type": "text", "text": handshake_summary(success.payload)}]
        return replies.result(exchange, {"content": content, "structuredContent": success.payload})

    # -- steps --------------------------------------------------------------------------------------------

    async def _serialised(self, exchange: Exchange, cwd: object) -> HandshakeSuccess | Refusal:
        if exchange.session is None:
            return await self._perform(exchange, cwd)
        async with self._session_manager.handshake_lock(exchange.session):
            return await self._perform(exchange, cwd)

    async def _perform(self, exchange: Exchange, cwd: object) -> HandshakeSuccess | Refusal:
        workspace = await self._find(exchange, cwd)
        if isinstance(workspace, Refusal):
            return self._refused(exchange, workspace)
        instance = await self._healthy(workspace)
        if isinstance(instance, Refusal):
            return self._refused(exchange, instance)
        folder = await self._workspaces.real_folder(cwd) or workspace.root
        exchange.decided(Located(workspace, WorkspaceSource.ARGUMENT))
        if exchange.session is not None:
            await self._session_manager.bind(exchange.session, workspace.id, folder)
        traits = self._adaptation.traits_header(exchange)
        discovery, entries = await self._catalog.discovery(workspace, instance, traits)
        logger().info(
            "handshake.ok",
            workspace=workspace.id,
            session=short(exchange.session.id) if exchange.session else None,
            tools=len(entries),
            partial=discovery["partial"],
        )
        payload = handshake_payload(
            session_id=exchange.session.id if exchange.session else None,
            workspace=workspace.id,
            cwd=folder,
            target=presence.target_of(instance),
            health=public_health(instance),
            discovery=discovery,
            place=split_root(workspace.root),
        )
        return HandshakeSuccess(payload, entries)

    async def _find(self, exchange: Exchange, cwd: object) -> Workspace | Refusal:
        found = await self._workspaces.find_or_wait(cwd)
        if found is None:
            return Refusal(Reason.INVALID_ARGUMENTS, "expected cwd (string)", delivered="no")
        path = exchange.claims.path
        if isinstance(found, Workspace) and path is not None and path != found.id:
            return conflicting(path, found.id)
        return found

    async def _healthy(self, workspace: Workspace) -> Instance | Refusal:
        """Return a server that answers its health check now; one that does not is restarted once."""
        for _ in range(2):
            began = self._dependencies.now()
            instance = await self._workspaces.ready(workspace, urgent=True)
            if isinstance(instance, Refusal) or (instance.last_ok is not None and instance.last_ok > began):
                return instance  # a server just started has answered its health check
            failure = await self._health_failure(instance)
            if failure is None:
                return instance
            if instance.owner != "manager":
                stranger = failure.cause == "identity_mismatch"
                cause = "identity_mismatch" if stranger else "unhealthy"
                return workspace.supervisor.offline(cause, retry_after_ms=1000)
            workspace.supervisor.replace(instance, "did not answer a handshake")
        return workspace.supervisor.offline("unhealthy", retry_after_ms=1000)

    async def _health_failure(self, instance: Instance) -> UpstreamFailure | None:
        """Why the health check fails, None if it succeeds. A server of ours may time out several times: it is
        shared, and a restart would end the calls of other clients.
        """
        settings = self._dependencies.settings
        left = settings.health_misses if instance.owner == "manager" else 1
        while True:
            left -= 1
            try:
                await instance.check(settings.health_timeout_s, self._dependencies.now())
            except UpstreamFailure as failure:
                if left == 0 or failure.cause != "timeout":
                    return failure
            else:
                return None

    def _refused(self, exchange: Exchange, refusal: Refusal) -> Refusal:
        logger().warning(
            "handshake.error",
            reason=refusal.reason.word,
            message=refusal.message,
            session=short(exchange.session.id) if exchange.session else None,
        )
        return refusal

    # -- list changes -------------------------------------------------------------------------------------

    async def _list_changes(self, exchange: Exchange, success: HandshakeSuccess) -> AsyncIterator[bytes]:
        """Announce list changes before the result: some clients list again only then."""
        session = exchange.session
        if session is None:
            return
        now_shown = fingerprint([jsonrpc.bytes_of(entry.raw) for entry in success.entries])
        if (session.shown or fingerprint([])) == now_shown:
            return
        timeout_s = self._dependencies.settings.announce_hold_s
        self._session_manager.expect_tools_list(session)
        if self._session_manager.notify_lists_changed(session):
            await self._session_manager.wait_for_tools_list(session, timeout_s)
        elif exchange.accepts_events:
            for method in names.LISTS_CHANGED:
                yield jsonrpc.notification(method)
            await self._session_manager.wait_for_tools_list(session, timeout_s)
        else:
            session.unannounced = True


def public_health(instance: Instance) -> dict[str, msgspec.Raw]:
    """The last health answer of a server, without its nonce."""
    return {key: raw for key, raw in jsonrpc.members_of(instance.health).items() if key != "nonce"}


def _progress(token: msgspec.Raw, count: int) -> bytes:
    params = {"progressToken": token, "progress": count, "message": "starting the workspace server"}
    return jsonrpc.notification(names.PROGRESS, params)


def read_own(exchange: Exchange, located: Located | None, workspaces: Workspaces) -> Plain | None:
    """The result of reading one of the manager's resources; None if the URI names another resource."""
    uri = exchange.inbound.name
    if uri == names.URI_CALL_TOOL:
        text = CALL_TOOL_TEXT
    elif uri == names.URI_HANDSHAKE:
        snapshot = _snapshot(exchange, located, workspaces)
        text = (
            f"Call {names.HANDSHAKE} with {{ cwd: string }}, the absolute path of your project.\n"
            f"Then call tools by name, or through {names.CALL_TOOL}.\n"
            f"Status snapshot:\n{jsonrpc.dumps(snapshot).decode()}\n"
        )
    else:
        return None
    contents = [{"uri": uri, "mimeType": "text/plain", "text": text}]
    return Plain(replies.result(exchange, {"contents": contents}))


def _snapshot(exchange: Exchange, located: Located | None, workspaces: Workspaces) -> dict[str, Any]:
    """The client's current state, whoever started its server. Reading it starts no server."""
    session = exchange.session
    workspace = None if located is None else located.workspace
    instance = None if workspace is None else presence.serving(workspaces, workspace)
    since = None if workspace is None else presence.offline_since(workspaces, workspace)
    snapshot: dict[str, Any] = {
        "ready": instance is not None,
        "online": instance is not None,
        "workspaceSetExplicitly": session is not None and session.workspace is not None,
        "workspace": None if workspace is None else workspace.id,
        "cwd": None if session is None else session.cwd,
        "offlineDurationSec": None if since is None else int(workspaces.registered_servers.now() - since),
        "target": None if instance is None else presence.target_of(instance),
    }
    if instance is not None:
        snapshot["health"] = {"ok": True, "status": 200, "data": public_health(instance)}
    return snapshot
