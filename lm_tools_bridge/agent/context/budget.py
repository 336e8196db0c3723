"""Keeps the context budget of a conversation: limit, costs of requests, what is left out, what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.agent.context.costs import Costs, costs_line
from lm_tools_bridge.agent.context.cut_detection import Counted, cut_notice, was_cut
from lm_tools_bridge.agent.context.fitting import first_kept, with_short_results
from lm_tools_bridge.agent.context.token_estimate import (
    Correction,
    message_tokens,
    messages_tokens,
    tools_tokens,
)
from lm_tools_bridge.agent.context.turns import newest_turns
from lm_tools_bridge.agent.context.window import chosen_window, reply_reserve, window_limit
from lm_tools_bridge.agent.messages import Message, SystemMessage, Tool, ToolMessage
from lm_tools_bridge.agent.model_events import ModelWindow

LARGEST_RESULT: Final = 65_536
"""Bytes of text that a result may have in the history."""
_RESULT_SHARE: Final = 0.4
_BYTES_A_TOKEN: Final = 3


@dataclass(frozen=True, slots=True)
class Fitted:
    """A request that fits: its messages with the system prompt, its window, and its costs.

    `left_out` counts older messages, `newly_left_out` those that the last request still had. `fits` is False
    if even the current turn is too large.
    """

    messages: list[Message]
    context_tokens: int | None
    costs: Costs
    left_out: int
    newly_left_out: int
    fits: bool


class ContextBudget:
    """The budget of one conversation with one model at a time. No I/O."""

    def __init__(self, setting: int | None = None, tools_share: float = 0.3) -> None:
        self._setting = setting
        self._tools_share = tools_share
        self._model: ModelWindow | None = None
        self._limit = window_limit(setting, None)
        self._window = 0
        self._first_kept = 0
        self._correction = Correction()
        self._last: Fitted | None = None
        self._counted: Counted | None = None

    @property
    def limit(self) -> int | None:
        """The most tokens that a request and its reply may have; None if unknown."""
        return self._limit

    @property
    def space(self) -> float | None:
        """The tokens that a request may have, without its reply."""
        if self._limit is None:
            return None
        return (self._limit - reply_reserve(self._limit)) / self._correction.margin

    @property
    def window(self) -> int | None:
        """The window that the last request asked for; None if requests do not choose it."""
        return self._last.context_tokens if self._last is not None else None

    def configure(self, setting: int | None, tools_share: float) -> None:
        """Use other settings."""
        self._setting, self._tools_share = setting, tools_share
        self.use_model(self._model)

    def use_model(self, window: ModelWindow | None) -> None:
        """Start to plan for another model, of which the provider says this; nothing is left out so far."""
        self._model = window
        self._limit = window_limit(self._setting, window)
        self._window = 0
        self._first_kept = 0
        self._correction = Correction()
        self._counted = None

    def history_replaced(self) -> None:
        """Note that the history is another one: nothing of it is left out so far."""
        self._first_kept = 0

    def costs(self, system: str, tools: Sequence[Tool], history: Sequence[Message]) -> Costs:
        """What a request with these parts costs, as far as its history is not left out."""
        return self._estimate(system, tools, history[self._first_kept :]).times(self._correction.factor)

    def tools_take_too_much(self, tools: Sequence[Tool]) -> bool:
        """Whether the tools take more than their share of the largest window."""
        if self._limit is None:
            return False
        return tools_tokens(tools) * self._correction.factor > self._tools_share * self._limit

    def is_over(self, system: str, tools: Sequence[Tool], history: Sequence[Message]) -> bool:
        """Whether the request would be too large, so that something has to go."""
        space = self.space
        return space is not None and self.costs(system, tools, history).total > space

    def part_to_summarise(
        self, system: str, tools: Sequence[Tool], history: Sequence[Message]
    ) -> Sequence[Message]:
        """The older part of the history; empty if there is only the current turn."""
        space = self._history_space(system, tools)
        sizes = [message_tokens(message) for message in history]
        return history[: newest_turns(history, sizes, space / 2)]

    def fit(self, system: str, tools: Sequence[Tool], history: Sequence[Message]) -> Fitted:
        """The request as it is to be sent."""
        space, before = self._history_space(system, tools), self._first_kept
        self._first_kept = first_kept(history, before, space)
        kept_messages = with_short_results(history[self._first_kept :], space)
        costs = self._estimate(system, tools, kept_messages).times(self._correction.factor)
        messages: list[Message] = [SystemMessage(system), *kept_messages]
        fits = self._limit is None or costs.total <= self._limit - reply_reserve(self._limit)
        newly = self._first_kept - before
        self._last = Fitted(messages, self._chosen(costs), costs, self._first_kept, newly, fits)
        return self._last

    def counted(self, provider: str, prompt_tokens: int) -> str | None:
        """Learn from a provider's count of the last request; returns what to tell if it was cut."""
        if self._last is None:
            return None
        expected, window = self._last.costs.total, self._last.context_tokens or self._limit
        now, before = Counted(expected, prompt_tokens), self._counted
        self._counted = now
        if was_cut(now, before, window=window, samples=self._correction.samples):
            self._limit = min(self._limit or prompt_tokens, prompt_tokens)
            self._window = min(self._window, self._limit)
            return cut_notice(provider, expected=expected, counted=prompt_tokens)
        if prompt_tokens >= expected / 3:  # less: the provider does not count what it cached
            estimate = expected / self._correction.factor
            self._correction = self._correction.learned(estimate, prompt_tokens)
        return None

    def line(self) -> str:
        """One line about the last request; empty before the first."""
        if self._last is None:
            return ""
        return costs_line(self._last.costs, self._last.context_tokens or self._limit, self._last.left_out)

    def line_of(self, system: str, tools: Sequence[Tool], history: Sequence[Message]) -> str:
        """One line about a request that is not sent yet."""
        return costs_line(self.costs(system, tools, history), self._limit)

    def summary_space(self) -> float:
        """The uncorrected tokens that a request for a summary may have."""
        return float("inf") if self.space is None else self.space / self._correction.factor * 0.8

    def largest_result(self) -> int:
        """The bytes of text that a result may have in the history."""
        if self._limit is None:
            return LARGEST_RESULT
        return min(LARGEST_RESULT, int(self._limit * _RESULT_SHARE * _BYTES_A_TOKEN))

    def _history_space(self, system: str, tools: Sequence[Tool]) -> float:
        """The uncorrected tokens that the history may have."""
        space = self.space
        if space is None:
            return float("inf")
        return max(space / self._correction.factor - self._estimate(system, tools, ()).total, 0.0)

    def _estimate(self, system: str, tools: Sequence[Tool], history: Sequence[Message]) -> Costs:
        results = [message for message in history if isinstance(message, ToolMessage)]
        return Costs(
            message_tokens(SystemMessage(system)),
            tools_tokens(tools),
            messages_tokens(history),
            messages_tokens(results),
        )

    def _chosen(self, costs: Costs) -> int | None:
        if self._limit is None or self._model is None or not self._model.chosen:
            return None
        needed = costs.total * self._correction.margin + reply_reserve(self._limit)
        self._window = chosen_window(needed, self._window, self._limit)
        return self._window
