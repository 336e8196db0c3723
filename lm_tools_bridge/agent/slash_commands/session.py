"""The state of a session that commands change: provider, mode, guard, settings, and what they act on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_tools_bridge.agent.guard.guard import Mode
from lm_tools_bridge.agent.messages import Result
from lm_tools_bridge.agent.screen.screen import Screen
from lm_tools_bridge.agent.screen.state_line import model_name, state_line
from lm_tools_bridge.agent.settings.settings import MANUAL, AgentSettings

if TYPE_CHECKING:
    from lm_tools_bridge.agent.conversation.conversation import Conversation
    from lm_tools_bridge.agent.conversation.toolbox import Toolbox
    from lm_tools_bridge.agent.guard.guard import AskingGuard
    from lm_tools_bridge.agent.saved_sessions.saved_sessions import SavedSessions

Verb = Callable[..., Awaitable[dict[str, Any]]]
"""Runs a verb of `lmtb` in the session's folder; its JSON object."""
SchemaChanges = Callable[[Mapping[str, Any]], Sequence[str]]
"""What the chosen provider changes of a tool's schema."""
Models = Callable[[str], Awaitable[Sequence[str]]]
"""The models that a provider lists; may raise ProviderFailure."""


@dataclass(slots=True)
class Session:
    """One session of the agent.

    Attributes:
        settings: as they are now, with what was changed in this session.
        is_manual: whether inputs are tools to call, without a model.
        has_left: whether the session is to end.
        last: the last result of a tool in manual mode, whole.
        asks: whether calls of a model are asked about.
    """

    screen: Screen
    conversation: Conversation
    toolbox: Toolbox
    guard: AskingGuard
    settings: AgentSettings
    config_file: Path
    lmtb: Verb
    saved: SavedSessions
    schema_changes: SchemaChanges
    models: Models
    is_manual: bool = False
    has_left: bool = False
    last: Result | None = None
    asks: bool = field(init=False)

    def __post_init__(self) -> None:
        self.asks = self.settings.human_in_loop
        if self.settings.default_provider == MANUAL:
            self.choose(MANUAL)

    @property
    def state_line(self) -> str:
        """The line above the prompt."""
        if self.is_manual:
            return state_line(MANUAL, asks=self.asks)
        name = model_name(self.conversation.provider, self.conversation.model)
        return state_line(name, asks=self.asks, context=self.conversation.context_line.partition(":")[0])

    def modes(self) -> list[str]:
        """What `/mode` goes through, in its order."""
        provider_names = (*self.settings.model, *self.settings.providers, self.settings.default_provider)
        usable = self.settings.provider_names()
        further = [name for name in dict.fromkeys(provider_names) if name in usable]
        return list(dict.fromkeys([MANUAL, "ollama", "gemini", *further]))

    def choose(self, mode: str) -> None:
        """Use a provider, or manual mode. The history stays."""
        self.is_manual = mode == MANUAL
        if not self.is_manual:
            self.conversation.choose(mode)
        self.ask(self.asks)

    def ask(self, on: bool) -> None:
        """Ask about calls of a model, or let them run. A call that the person enters is never asked about."""
        self.asks = on
        self.guard.mode = Mode.MANUAL if self.is_manual else Mode.ASK if on else Mode.OFF
