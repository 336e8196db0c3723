"""Runs one turn: rounds of the model and calls of its replies, until one of five endings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lm_tools_bridge.agent.conversation.call_runner import Aborted, CallRunner
from lm_tools_bridge.agent.conversation.history import CANCELLED, History
from lm_tools_bridge.agent.conversation.model_reply import ModelReply, read_reply
from lm_tools_bridge.agent.conversation.repeated_calls import RepeatedCalls
from lm_tools_bridge.agent.conversation.round_request import RoundRequests
from lm_tools_bridge.agent.conversation.turn_states import Event, State, TurnState
from lm_tools_bridge.agent.interaction import Interaction, Tone
from lm_tools_bridge.agent.messages import Call
from lm_tools_bridge.agent.model_events import Provider, ProviderFailure
from lm_tools_bridge.agent.outcomes import Ending

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
