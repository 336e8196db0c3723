"""Runs one turn as a table of states: rounds of the model and its calls, until one of five outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final

from lm_tools_bridge.agent.conversation.call_runner import Aborted, CallRunner, RepeatedCalls
from lm_tools_bridge.agent.conversation.history import CANCELLED, History
from lm_tools_bridge.agent.conversation.model_reply import ModelReply, read_reply
from lm_tools_bridge.agent.conversation.round_request import RoundRequests
from lm_tools_bridge.agent.interaction import Interaction, Tone
from lm_tools_bridge.agent.messages import Call, Provider, ProviderFailure


class Ending(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    """The model replied without calls."""
    LIMIT_REACHED = "limit_reached"
    """The model asked for calls in every round that it may have."""
    CANCELLED = "cancelled"
    """The person cancelled it."""
    REPEATED_CALLS = "repeated_calls"
    """The model repeated calls that it had the results of."""
    PROVIDER_FAILED = "provider_failed"
    """The provider gave no whole reply."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How a turn ended. `detail` says why in words for a person, empty where it was completed."""

    ending: Ending
    rounds: int
    calls: int
    seconds: float
    detail: str = ""


_BROKEN_OFF = "not run: the reply broke off"
_NOT_RUN = "not run: the turn ended"
_FINISHES = {"cut": "the reply reached the model's limit of length", "refused": "the model refused to reply"}


class Turn:
    """One turn. `state` says at any time how far it is."""

    def __init__(
        self,
        history: History,
        requests: RoundRequests,
        runner: CallRunner,
        interaction: Interaction,
        keep: Callable[[], Awaitable[None]],
    ) -> None:
        self._history = history
        self._requests = requests
        self._runner = runner
        self._interaction = interaction
        self._keep = keep
        self._settings = requests.settings
        self._repeats = RepeatedCalls(self._settings.repeatable)
        self.state = TurnState(self._settings.loop_limit)
        self._failure = ""

    async def run(self, ready: Callable[[], Awaitable[tuple[Provider, str]]]) -> tuple[Ending, str]:
        """Run until the turn ends; cancelling the task ends it. The history is whole in any case.

        Args:
            ready: the provider and the model; may raise ProviderFailure.

        Returns:
            How it ended, and why in words for a person; no words if it was completed.
        """
        reply = ModelReply()
        try:
            provider, model = await ready()
            while self.state.state is not State.ENDED:
                reply = ModelReply()
                await self._round(provider, model, reply)
        except (asyncio.CancelledError, Aborted) as error:
            task = asyncio.current_task()
            if task is not None and isinstance(error, asyncio.CancelledError):
                task.uncancel()  # the turn is what was cancelled; what follows must be able to wait
            self._break_off(reply, Event.CANCELLED, CANCELLED)
        except ProviderFailure as failure:
            self._failure = str(failure)
            self._break_off(reply, Event.FAILED, _BROKEN_OFF)
        finally:
            self._history.close(_NOT_RUN)  # also after a fault of ours
        ending = self.state.ending
        assert ending is not None  # noqa: S101  the table has an ending for the last state
        return ending, self._detail(ending)

    def _detail(self, ending: Ending) -> str:
        match ending:
            case Ending.COMPLETED:
                return ""
            case Ending.LIMIT_REACHED:
                return f"maximum tool call rounds ({self.state.limit}) reached"
            case Ending.CANCELLED:
                return CANCELLED
            case Ending.REPEATED_CALLS:
                return f"the model repeated calls {self._repeats.count} times whose results it had"
            case Ending.PROVIDER_FAILED:
                return self._failure

    async def _round(self, provider: Provider, model: str, reply: ModelReply) -> None:
        await self._keep()
        request = await self._requests.next(provider, model)
        self._interaction.activity("thinking")
        await read_reply(provider, request, reply, self._interaction)
        calls = self._history.replied(reply.text, reply.calls)
        self.state = self.state.after(Event.CALLED if calls else Event.REPLIED)
        self._look_at(provider, reply)
        if calls:
            await self._run_calls(calls)

    def _look_at(self, provider: Provider, reply: ModelReply) -> None:
        if reply.usage is not None and reply.usage.prompt_tokens:
            self._requests.counted(provider.name, reply.usage.prompt_tokens)
        if reply.text:
            self._interaction.event("text", {"text": reply.text})
        finish = reply.finish.reason if reply.finish is not None else ""
        if finish in _FINISHES:
            self._interaction.notice(_FINISHES[finish], Tone.WARNING)
        elif not reply.text and not reply.calls:
            self._interaction.notice("the model replied with nothing", Tone.WARNING)

    async def _run_calls(self, calls: tuple[Call, ...]) -> None:
        for call in calls:
            most = self._requests.budget.largest_result()
            result = await self._runner.run(call, self._repeats, seconds=self._settings.tool_s, most=most)
            self._history.result(result)
            if self._repeats.too_many:
                self._history.close(_NOT_RUN)
                self.state = self.state.after(Event.REPEATED)
                return
        self.state = self.state.after(self.state.all_ran())

    def _break_off(self, reply: ModelReply, event: Event, text: str) -> None:
        """Keep what a reply brought before it broke off, without running its calls."""
        if self.state.state is State.ASKING and (reply.text or reply.calls):
            self._history.replied(reply.text, reply.calls)
        self._history.close(text)
        if self.state.state is not State.ENDED:
            self.state = self.state.after(event)


class State(Enum):
    """What a turn is doing."""

    ASKING = auto()
    """The model is asked, or replies."""
    RUNNING = auto()
    """The calls of its reply run."""
    ENDED = auto()


class Event(Enum):
    """What happens in a turn."""

    REPLIED = auto()
    """A whole reply without calls."""
    CALLED = auto()
    """A whole reply with calls."""
    RAN = auto()
    """Every call of the reply has its result, and the model may reply again."""
    RAN_LAST = auto()
    """Every call has its result, and the model has had all its rounds."""
    REPEATED = auto()
    """The model repeated calls too often."""
    FAILED = auto()
    """The provider gave no whole reply."""
    CANCELLED = auto()
    """The person cancelled the turn."""


TABLE: Final[Mapping[tuple[State, Event], tuple[State, Ending | None]]] = {
    (State.ASKING, Event.REPLIED): (State.ENDED, Ending.COMPLETED),
    (State.ASKING, Event.CALLED): (State.RUNNING, None),
    (State.ASKING, Event.FAILED): (State.ENDED, Ending.PROVIDER_FAILED),
    (State.ASKING, Event.CANCELLED): (State.ENDED, Ending.CANCELLED),
    (State.RUNNING, Event.RAN): (State.ASKING, None),
    (State.RUNNING, Event.RAN_LAST): (State.ENDED, Ending.LIMIT_REACHED),
    (State.RUNNING, Event.REPEATED): (State.ENDED, Ending.REPEATED_CALLS),
    (State.RUNNING, Event.CANCELLED): (State.ENDED, Ending.CANCELLED),
}
"""State and event -> next state, and the ending if it is the last one. Other pairs cannot happen."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """Where a turn is: its state, the whole replies so far of those that it may have, and how it ended."""

    limit: int
    state: State = State.ASKING
    rounds: int = 0
    ending: Ending | None = None

    def after(self, event: Event) -> TurnState:
        """The turn after an event.

        Raises:
            KeyError: the event cannot happen in this state.
        """
        state, ending = TABLE[self.state, event]
        rounds = self.rounds + (event in {Event.REPLIED, Event.CALLED})
        return replace(self, state=state, ending=ending, rounds=rounds)

    def all_ran(self) -> Event:
        """The event when every call of a reply has its result."""
        return Event.RAN_LAST if self.rounds >= self.limit else Event.RAN
