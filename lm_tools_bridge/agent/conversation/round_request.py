"""Prepares what the model is asked in a round: fresh tools, a search in their place, a history that fits."""

from __future__ import annotations

from collections.abc import Sequence

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.conversation.budget import ContextBudget, Fitted
from lm_tools_bridge.agent.conversation.compaction import is_allowed, summary_of
from lm_tools_bridge.agent.conversation.history import History
from lm_tools_bridge.agent.conversation.toolbox import Toolbox, with_allowed_names
from lm_tools_bridge.agent.interaction import Interaction, Tone
from lm_tools_bridge.agent.messages import Message, ModelRequest, ModelWindow, Provider, Tool


class RoundRequests:
    """Makes the requests of a conversation, and says what it had to do so that they fit.

    Attributes:
        settings: may be replaced between turns.
        budget: what requests cost.
    """

    def __init__(
        self,
        history: History,
        toolbox: Toolbox,
        interaction: Interaction,
        settings: AgentSettings,
        system: str,
    ) -> None:
        self.settings = settings
        self.budget = ContextBudget(settings.context_tokens, settings.tools_share)
        self._history = history
        self._toolbox = toolbox
        self._interaction = interaction
        self._system = system
        self._asked = False
        self._told: set[str] = set()
        self._missing: set[str] = set()

    def configure(self, settings: AgentSettings) -> None:
        """Use other settings; the model's window has to be told again."""
        self.settings = settings
        self.budget.configure(settings.context_tokens, settings.tools_share)

    async def use_model(self, window: ModelWindow | None) -> None:
        """Plan for another model; whether the tools take too much is decided anew."""
        self.budget.use_model(window)
        if self._toolbox.discovery:
            await self._toolbox.set_discovery(False)

    def begin_turn(self) -> None:
        """Allow one question and each notice again."""
        self._asked = False
        self._told.clear()

    async def next(self, provider: Provider, model: str) -> ModelRequest:
        """The request of the next round. Cancelled with the turn."""
        tools = await self._tools()
        if not self._asked and self._is_over(tools):
            self._asked = True
            older = self._older(tools)
            if older and await is_allowed(self._interaction, self._line(tools)):
                await self.summarise(provider, model, older)
        fitted = self.budget.fit(self._system, tools, self._history.messages)
        self._tell(fitted)
        return ModelRequest(
            model, with_allowed_names(fitted.messages), tools, self.settings.stream, fitted.context_tokens
        )

    async def summarise(self, provider: Provider, model: str, older: Sequence[Message]) -> bool:
        """Put a summary in the place of these first turns; False if there are none, or no summary came."""
        if not older:
            return False
        summary = await summary_of(
            older,
            provider,
            self._interaction,
            model=model,
            space=self.budget.summary_space(),
            context_tokens=self.budget.window,
        )
        if summary:
            self._history.summarise(len(older), summary)
            self.budget.history_replaced()
        return bool(summary)

    def counted(self, provider: str, prompt_tokens: int) -> None:
        """Take the provider's count of the last request, and say if the provider cut it."""
        notice = self.budget.counted(provider, prompt_tokens)
        if notice:
            self._interaction.notice(notice, Tone.WARNING)
        self._interaction.event("context", {"line": self.budget.line(), "promptTokens": prompt_tokens})

    async def _tools(self) -> list[Tool]:
        self._interaction.activity("listing tools")
        tools = await self._toolbox.refresh()
        self._tell_missing_sources()
        if self._toolbox.discovery or not self.budget.tools_take_too_much(tools):
            return tools
        share = f"{len(tools)} tools take more than {self.settings.tools_share:.0%} of the context"
        if not await self._toolbox.set_discovery(True):
            self._once(f"{share}. Next step: switch some off with /tools NAME off")
            return tools
        self._once(f"{share}: the model searches for them instead (tool_search, execute_tool)")
        return await self._toolbox.refresh()

    def _tell_missing_sources(self) -> None:
        """Say which tools the model is not offered, and why; again only after they were there meanwhile."""
        toolbox = self._toolbox
        missing = {
            state.name: state
            for state in toolbox.states()
            if state.state != "ready" and toolbox.is_source_on(state.name)
        }
        offering = {offer.source.name for offer in toolbox.offers}
        for name in missing.keys() - self._missing:
            effect = "may have changed" if name in offering else "are not offered"
            reason = missing[name].detail or missing[name].state
            self._interaction.notice(f"the tools of {name} {effect}: {reason}", Tone.WARNING)
        self._missing = set(missing)

    def _is_over(self, tools: Sequence[Tool]) -> bool:
        return self.budget.is_over(self._system, tools, self._history.messages)

    def _older(self, tools: Sequence[Tool]) -> Sequence[Message]:
        return self.budget.part_to_summarise(self._system, tools, self._history.messages)

    def _line(self, tools: Sequence[Tool]) -> str:
        return self.budget.line_of(self._system, tools, self._history.messages)

    def _tell(self, fitted: Fitted) -> None:
        if fitted.newly_left_out:
            self._once(
                f"the model no longer sees the {fitted.left_out} oldest messages ({self.budget.line()})"
            )
        if not fitted.fits:
            self._once(
                f"the request does not fit ({self.budget.line()}): the provider may cut it. "
                "Next step: ask for less at once, switch tools off, or use a model with a larger context"
            )

    def _once(self, text: str) -> None:
        """Show a notice, once in a turn."""
        if text not in self._told:
            self._told.add(text)
            self._interaction.notice(text, Tone.WARNING)
