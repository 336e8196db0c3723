"""An editor that speaks the Agent Client Protocol: the protocol's own client, with the person's answers."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from acp import spawn_agent_process
from acp.interfaces import Agent, Client
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from support.processes.terminals.agent_desk import AgentDesk

PIPE_BYTES = 8 * 1024 * 1024
END_S = 20


@dataclass
class Editor:
    """Records what a session shows, and answers its questions.

    Attributes:
        answers: kinds of options that the person chooses, in turn; `cancelled` where there is none left.
        on_question: called before a question is answered.
        agent: the connection to the agent.
        process: the agent's process.
    """

    answers: list[str] = field(default_factory=list)
    on_question: Callable[[], None] | None = None
    updates: list[tuple[str, Any]] = field(default_factory=list)
    questions: list[tuple[ToolCallUpdate, list[PermissionOption]]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    agent: Any = None
    process: Any = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.changed.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        self.questions.append((tool_call, options))
        self.changed.set()
        if self.on_question is not None:
            self.on_question()
        kind = self.answers.pop(0) if self.answers else "cancelled"
        chosen = [option.option_id for option in options if option.kind == kind]
        if not chosen:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen[0]))

    def text(self, kind: str = "agent_message_chunk", session_id: str = "") -> str:
        """The text of all pieces of one kind, of one session or of all."""
        return "".join(
            update.content.text
            for one, update in self.updates
            if update.session_update == kind and session_id in {"", one}
        )

    def of_calls(self) -> list[tuple[str, str]]:
        """What was told of calls: the kind of update and the status."""
        kinds = {"tool_call", "tool_call_update"}
        return [(one.session_update, one.status) for _, one in self.updates if one.session_update in kinds]

    async def sees(self, condition: Callable[[], object]) -> None:
        """Wait until something shown fulfils a condition."""
        async with asyncio.timeout(30):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def editor(desk: AgentDesk, *words: str, answers: tuple[str, ...] = ()) -> AsyncIterator[Editor]:
    """An editor that has started the agent and is connected. In the end, the agent left without a word."""
    one = Editor(list(answers))
    command = [sys.executable, "-I", "-m", "manager", "agent", *words, "acp"]
    with tempfile.TemporaryFile() as log:
        kwargs = {"limit": PIPE_BYTES, "stderr": log, "shutdown_timeout": END_S}
        async with spawn_agent_process(
            cast(Client, one), *command, env=desk.environ, cwd="/", transport_kwargs=kwargs,
            use_unstable_protocol=True,
        ) as (connection, process):  # fmt: skip
            one.agent, one.process = cast(Agent, connection), process
            yield one
        log.seek(0)
        assert (process.returncode, log.read().decode()) == (0, "")
