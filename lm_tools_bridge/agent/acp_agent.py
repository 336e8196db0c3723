"""Answers an editor (Agent Client Protocol, version 1): sessions, prompts and their turns, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from acp import PROTOCOL_VERSION, RequestError
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AudioContentBlock,
    CloseSessionResponse,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptCapabilities,
    PromptResponse,
    RequestPermissionResponse,
    ResourceContentBlock,
    SessionCapabilities,
    SessionCloseCapabilities,
    StopReason,
    TextContentBlock,
    TextResourceContents,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
)

from lm_tools_bridge.agent import acp_screen as editor_screen
from lm_tools_bridge.agent.acp_screen import EditorScreen, Outbox
from lm_tools_bridge.agent.assembly import Agent
from lm_tools_bridge.agent.conversation.turn import Ending, TurnOutcome
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.screen.screen import Screen
from lm_tools_bridge.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

STOP_REASONS: Final[Mapping[Ending, StopReason]] = {
    Ending.COMPLETED: "end_turn",
    Ending.LIMIT_REACHED: "max_turn_requests",
    Ending.REPEATED_CALLS: "max_turn_requests",
    Ending.CANCELLED: "cancelled",
}
"""The response to a prompt; a provider that failed is an error."""
_MANUAL: Final = "an editor needs a model: set default_provider in [agent], or start with --provider"
MakeAgent = Callable[[Screen, Path], Agent | None]
"""Makes the agent of a session; None if an error that was shown prevents it."""


class NoModel(Exception):
    """There is no model to talk to; the message says why, and what to do."""


class EditorSession:
    """A session.

    Args:
        make: makes the agent.
        workspace: the project's folder.
        client: the editor.
        session_id: of a saved session; None for a new one.

    Attributes:
        id: the session's, under which it is saved as well.

    Raises:
        NoModel: no provider is chosen.
    """

    def __init__(self, make: MakeAgent, workspace: Path, client: Client, session_id: str | None) -> None:
        self._workspace = workspace
        self._client = client
        self._turn: asyncio.Task[TurnOutcome] | None = None
        self._ready: asyncio.Task[None] | None = None
        self._outbox = Outbox(self._update)
        self._screen = EditorScreen(self._outbox, self._permission, self.cancel, self)
        agent = make(self._screen, workspace)
        if agent is None:
            raise NoModel(self._screen.problem)
        self.agent = agent
        self.agent.guard.hints = False
        if self.agent.session.is_manual:
            raise NoModel(_MANUAL)
        self.id = session_id or self.agent.saved.reserve()

    def kind(self, name: str) -> ToolKind:
        """See `updates.Looks`."""
        offered = (offer.tool for offer in self.agent.toolbox.offers if offer.name == name)
        return editor_screen.kind_of(name, next(offered, None))

    def locations(self, arguments: Mapping[str, Any] | None) -> list[ToolCallLocation]:
        """See `updates.Looks`."""
        return editor_screen.locations_of(arguments, self._workspace)

    def warm_up(self) -> None:
        """List the tools, while the editor goes on."""
        self._ready = asyncio.get_running_loop().create_task(self.agent.warm_up(), name="first list of tools")

    async def restore(self, session_id: str) -> None:
        """Go on with a saved session, and send what was said in it."""
        messages = await asyncio.to_thread(self.agent.saved.load, session_id)
        self.agent.conversation.restore(messages)
        self._outbox.open()
        for update in editor_screen.history(self.agent.conversation.messages, self):
            self._outbox.put(update)
        await self._outbox.flush()

    async def prompt(self, text: str) -> StopReason:
        """Run a turn, and send what happens in it; why it ended.

        Raises:
            RequestError: a turn runs already, there is no text, or the provider failed.
        """
        if self._turn is not None:
            raise RequestError(INVALID_REQUEST, "a turn of this session runs; cancel it first")
        if not text.strip():
            raise RequestError(INVALID_PARAMS, "the prompt is empty")
        self._outbox.open()
        self._turn = asyncio.get_running_loop().create_task(self._run(text), name="turn")
        try:
            return await self._stop_reason(self._turn)
        finally:
            self._turn = None

    def cancel(self) -> None:
        """Cancel the turn that runs, if one does."""
        if self._turn is not None:
            self._turn.cancel()

    async def close(self) -> None:
        """End the turn and everything that runs for it."""
        running = [task for task in (self._turn, self._ready) if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self._screen.close()
        await self.agent.close()

    async def _update(self, update: editor_screen.Update) -> None:
        await self._client.session_update(self.id, update)

    async def _permission(
        self, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        return await self._client.request_permission(self.id, call, options)

    async def _run(self, text: str) -> TurnOutcome:
        if self._ready is not None:
            await asyncio.wait([self._ready])
            with suppress(asyncio.CancelledError):
                if failure := self._ready.exception():
                    self._screen.notice(f"the tools were not listed: {failure}", Tone.WARNING)
            self._ready = None
        return await self.agent.conversation.turn(text)

    async def _stop_reason(self, turn: asyncio.Task[TurnOutcome]) -> StopReason:
        try:
            await asyncio.wait([turn])
        except asyncio.CancelledError:
            turn.cancel()
            await asyncio.wait([turn])
            raise
        await self._outbox.flush()
        if turn.cancelled():
            return "cancelled"
        outcome = turn.result()
        if outcome.ending not in STOP_REASONS:
            raise RequestError(INTERNAL_ERROR, outcome.detail)
        return STOP_REASONS[outcome.ending]


PromptBlock: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)
_FENCE: Final = "````"


class NotText(Exception):
    """A block is no text; the message says which."""


def prompt_text(blocks: Sequence[PromptBlock]) -> str:
    """The text; files that are linked to are named by path, embedded ones are quoted whole.

    Raises:
        NotText: there is a picture, sound or binary file.
    """
    return "".join(_text(block) for block in blocks)


def _text(block: PromptBlock) -> str:
    match block:
        case TextContentBlock():
            return str(block.text)
        case ResourceContentBlock():
            return _place(block.uri)
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return f"\n{_place(resource.uri)}\n{_FENCE}\n{resource.text}\n{_FENCE}\n"
        case EmbeddedResourceContentBlock():
            raise NotText("a binary file")
        case _:
            raise NotText("a picture" if isinstance(block, ImageContentBlock) else "sound")


def _place(uri: str) -> str:
    """The path of a local file, else the address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(parts.path) if parts.scheme == "file" else uri


MOST_SESSIONS: Final = 50
"""An editor that never closes sessions must not fill memory: each keeps a history and a line to the manager.
"""
_PACKAGE: Final = "lm-tools-bridge"
_OTHER_SERVERS: Final = (
    "the MCP servers of the editor are not used here; add them to the project's workspace.toml or your own"
)


class EditorAgent:
    """The agent of one editor, with all of its sessions.

    Args:
        make: makes the agent of a session.
    """

    def __init__(self, make: MakeAgent) -> None:
        self._make = make
        self._client: Client | None = None
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: Client) -> None:
        """Called by the library before the first request."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        """Tell what is supported; the version is ours, and the editor decides whether it speaks it."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(embedded_context=True),
                session_capabilities=SessionCapabilities(close=SessionCloseCapabilities()),
            ),
            auth_methods=[],
            agent_info=Implementation(name=_PACKAGE, title="LM Tools Bridge", version=_version()),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[object] | None = None, **_: Any
    ) -> NewSessionResponse:
        """Begin a session in the folder of a project."""
        workspace = await asyncio.to_thread(_folder, cwd)
        session = self._opened(workspace, None, mcp_servers)
        session.warm_up()
        return NewSessionResponse(session_id=session.id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[object] | None = None, **_: Any
    ) -> LoadSessionResponse:
        """Go on with a session that was saved, and show it again. One that is open is begun anew."""
        workspace = await asyncio.to_thread(_folder, cwd)
        await self.close_session(session_id)
        session = self._opened(workspace, session_id, mcp_servers)
        entries = await asyncio.to_thread(session.agent.saved.entries)
        if session_id not in {entry.id for entry in entries}:
            await self.close_session(session_id)
            raise RequestError(INVALID_PARAMS, f"there is no saved session {session_id} of {workspace}")
        await session.restore(session_id)
        session.warm_up()
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **_: Any) -> PromptResponse:
        """Run a turn to its end."""
        session = self._session(session_id)
        try:
            text = prompt_text(prompt)
        except NotText as problem:
            raise RequestError(INVALID_PARAMS, f"a prompt is text here, not {problem}") from problem
        return PromptResponse(stop_reason=await session.prompt(text))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Cancel the turn of a session; nothing if there is none."""
        if session_id in self._sessions:
            self._sessions[session_id].cancel()

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """End a session and what runs for it; it stays saved."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            await session.close()
        return CloseSessionResponse()

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(self.close_session(session_id) for session_id in tuple(self._sessions)))

    def _session(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(INVALID_PARAMS, f"there is no session {session_id}; begin or load one")
        return session

    def _opened(
        self, workspace: Path, session_id: str | None, servers: Sequence[object] | None
    ) -> EditorSession:
        """A session under this id, or under that by which it will be saved."""
        assert self._client is not None  # noqa: S101  the library connects before it passes requests on
        if len(self._sessions) >= MOST_SESSIONS:
            raise RequestError(INVALID_REQUEST, f"{MOST_SESSIONS} sessions are open; close one first")
        try:
            session = EditorSession(self._make, workspace, self._client, session_id)
        except NoModel as problem:
            raise RequestError(INVALID_REQUEST, str(problem)) from problem
        self._sessions[session.id] = session
        if servers:
            session.agent.session.screen.notice(_OTHER_SERVERS, Tone.WARNING)
        return session


def _folder(cwd: str) -> Path:
    folder = Path(cwd)
    if "\0" in cwd or not folder.is_absolute() or not folder.is_dir():
        raise RequestError(INVALID_PARAMS, "cwd is not the absolute path of a folder")
    return folder


def _version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "unknown"
