"""Answers the requests of an editor (Agent Client Protocol, version 1): sessions, prompts, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from acp import PROTOCOL_VERSION, RequestError
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
)

from lm_tools_bridge.agent.acp.editor_session import EditorSession, MakeAgent, NoModel
from lm_tools_bridge.agent.acp.prompt_text import NotText, PromptBlock, prompt_text
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST

MOST_SESSIONS: Final = 50
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
