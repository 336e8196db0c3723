"""One session of an editor: an agent of its own in the folder of the project, and the turn that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    PermissionOption,
    RequestPermissionResponse,
    StopReason,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
)

from lm_tools_bridge.agent.acp import tool_kinds, updates
from lm_tools_bridge.agent.acp.editor_screen import EditorScreen
from lm_tools_bridge.agent.acp.outbox import Outbox
from lm_tools_bridge.agent.assembly import Agent
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.outcomes import Ending, TurnOutcome
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
        return tool_kinds.kind_of(name, next(offered, None))

    def locations(self, arguments: Mapping[str, Any] | None) -> list[ToolCallLocation]:
        """See `updates.Looks`."""
        return tool_kinds.locations_of(arguments, self._workspace)

    def warm_up(self) -> None:
        """List the tools, while the editor goes on."""
        self._ready = asyncio.get_running_loop().create_task(self.agent.warm_up(), name="first list of tools")

    async def restore(self, session_id: str) -> None:
        """Go on with a saved session, and send what was said in it."""
        messages = await asyncio.to_thread(self.agent.saved.load, session_id)
        self.agent.conversation.restore(messages)
        self._outbox.open()
        for update in updates.history(self.agent.conversation.messages, self):
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

    async def _update(self, update: updates.Update) -> None:
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
