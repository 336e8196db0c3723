"""The state of a session that commands change, and the verbs of `lmtb` that know its workspace."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.agent.agent_settings import MANUAL, AgentSettings
from lm_tools_bridge.agent.guard.guard import Mode
from lm_tools_bridge.agent.messages import Result
from lm_tools_bridge.agent.screen.screen import Screen, model_name, state_line

if TYPE_CHECKING:
    from lm_tools_bridge.agent.conversation.conversation import Conversation
    from lm_tools_bridge.agent.conversation.toolbox import Toolbox
    from lm_tools_bridge.agent.guard.guard import AskingGuard
    from lm_tools_bridge.agent.saved_sessions import SavedSessions


_LONGEST_S: Final = 20.0
"""Verbs answer in about a second; one may wait for a project's server."""
_MOST_BYTES: Final = 4 * 1024 * 1024  # bytes that wait to be read: a list of all tools with their schemas


async def answer_of(folder: Path, *words: str) -> dict[str, Any]:
    """The JSON object that a verb prints, `{"ok": false, "error": {"message": …}}` if it gives none."""
    command = (sys.executable, "-I", "-m", "manager", *words, "--json")
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, limit=_MOST_BYTES
        )
    except OSError as error:
        return _failed_answer(f"lmtb cannot be run: {error.strerror or error}")
    try:
        async with asyncio.timeout(_LONGEST_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        return _failed_answer(f"lmtb {words[0]} gave no answer within {_LONGEST_S:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        answer = json.loads(printed)
    except ValueError:
        return _failed_answer(f"lmtb {words[0]} gave no answer")
    return answer if isinstance(answer, dict) else _failed_answer(f"lmtb {words[0]} gave no answer")


def problem_of(answer: dict[str, Any]) -> str | None:
    """Why a verb failed, with the next step; None if it did not."""
    if answer.get("ok"):
        return None
    error = answer.get("error")
    members = error if isinstance(error, dict) else {}
    message, step = str(members.get("message", "lmtb failed")), members.get("nextStep")
    return f"{message}; {step}" if step else message


def _failed_answer(message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"message": message}}


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
