"""A conversation of scripted parts of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.conversation.conversation import Conversation
from lm_tools_bridge.agent.conversation.toolbox import Toolbox
from lm_tools_bridge.agent.messages import AssistantMessage, Message, Result, ToolMessage
from support.agent_doubles import ListedTools, RecordingPerson, ScriptedGuard, ScriptedProvider
from support.clock import ManualClock


@dataclass
class Scene:
    """The parts, and the conversation that joins them."""

    provider: ScriptedProvider
    tools: ListedTools = field(default_factory=lambda: ListedTools("read", "write"))
    guard: ScriptedGuard = field(default_factory=ScriptedGuard)
    person: RecordingPerson = field(default_factory=RecordingPerson)
    clock: ManualClock = field(default_factory=ManualClock)
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = AgentSettings(**{"model": {"ollama": "small"}, **self.settings})
        self.kept: list[Sequence[Message]] = []
        self.toolbox = Toolbox([self.tools])
        self.conversation = Conversation(
            lambda name: self.provider,
            self.toolbox,
            self.guard,
            self.person,
            settings,
            clock=self.clock,
            keep=self.keep,
        )

    async def keep(self, messages: Sequence[Message]) -> None:
        self.kept.append(messages)

    @property
    def results(self) -> list[Result]:
        """All results in the history."""
        return [one.result for one in self.conversation.messages if isinstance(one, ToolMessage)]

    @property
    def texts(self) -> list[str]:
        """The texts of all results."""
        return [result.text for result in self.results]


def is_whole(messages: Sequence[Message]) -> bool:
    """Whether every call has exactly one result, in order, right behind its reply."""
    open_ids: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not open_ids or open_ids.pop(0) != message.result.call_id:
                return False
            continue
        if open_ids:
            return False
        if isinstance(message, AssistantMessage):
            open_ids = [call.id for call in message.calls]
    return not open_ids
