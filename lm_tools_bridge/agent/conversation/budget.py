"""Keeps the context budget of a conversation: window, costs of requests, what is left out, what was cut.

Ollama loads a model again when a request asks for another window, so sizes are few and only grow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.agent.conversation.history import (
    Correction,
    first_kept,
    message_tokens,
    messages_tokens,
    newest_turns,
    tools_tokens,
    with_short_results,
)
from lm_tools_bridge.agent.messages import Message, ModelWindow, SystemMessage, Tool, ToolMessage

SMALLEST: Final = 4096
"""The window that Ollama gives a model by itself. It doubles: each other window loads the model anew."""
AUTOMATIC: Final = 32_768
"""The largest window that is chosen without a setting: its memory grows with it."""


def window_limit(setting: int | None, model: ModelWindow | None) -> int | None:
    """The most tokens that a request and its reply may have; None if nobody knows.

    Args:
        setting: `context_tokens`, None for automatic.
        model: what the provider says, None if it says nothing.
    """
    largest = model.largest if model is not None else None
    if setting is not None:
        return min(setting, largest or setting)
    if model is not None and model.chosen:
        return min(AUTOMATIC, largest or AUTOMATIC)
    return largest


def chosen_window(needed: float, current: int, limit: int) -> int:
    """The window to ask for: the first step that holds what is needed, at least the current one."""
    size = SMALLEST
    while size < needed:
        size *= 2
    return min(max(size, current), limit)


def reply_reserve(limit: int) -> int:
    """The tokens that are kept free for the reply."""
    return min(2048, limit // 4)


_SMALLEST_WINDOW: Final = 2000
"""No provider has smaller windows. Smaller counts come from providers that do not count what they cached."""
_SHARES: Final = (0.55, 0.75, 0.75, 0.88)
"""The part of the estimate that a whole prompt has at least, by the number of counts that corrected it."""
_GROWN: Final = 1.02
"""Two percent are within the error of an estimate: a prompt that grew less may have the same count."""
_SIMILAR: Final = 0.7
"""A provider that cuts a prompt keeps most of it; one that counts much less did not count what it cached."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A request: its estimate in tokens, and what its provider counted."""

    expected: float
    tokens: int


def was_cut(now: Counted, before: Counted | None, *, window: int | None, samples: int) -> bool:
    """Whether the provider read only a part of the prompt.

    Args:
        now: the request in question.
        before: the one before it in the same conversation.
        window: the window that was asked for or is known.
        samples: how many counts corrected the estimate.
    """
    if window is not None and now.tokens >= window - 8:
        return now.expected > window  # a prompt that exactly fills the window lost what did not fit
    if now.tokens < min(_SMALLEST_WINDOW, window // 2 if window else _SMALLEST_WINDOW):
        return False
    if now.tokens < now.expected * _SHARES[min(samples, len(_SHARES) - 1)]:
        return True
    return before is not None and _stands_still(now, before)


def _stands_still(now: Counted, before: Counted) -> bool:
    """Whether the prompt grew and its count did not, as it is when the window is full."""
    has_grown = now.expected > before.expected * _GROWN
    return has_grown and before.tokens * _SIMILAR < now.tokens <= before.tokens


def cut_notice(provider: str, *, expected: float, counted: int) -> str:
    """What a person is told about it."""
    return (
        f"{provider} read {counted:,} of about {round(expected, -2):,.0f} tokens: it cut the beginning of "
        "the request, where the system prompt and the tools are. Requests stay below that size from now on; "
        "for more, use a model with a larger context window"
    )


@dataclass(frozen=True, slots=True)
class Costs:
    """Tokens of a request. `results` is the part of `history` that tool results take."""

    system: float
    tools: float
    history: float
    results: float = 0.0

    @property
    def total(self) -> float:
        """All tokens of the request."""
        return self.system + self.tools + self.history

    def times(self, factor: float) -> Costs:
        """The costs, each multiplied by a factor."""
        return Costs(self.system * factor, self.tools * factor, self.history * factor, self.results * factor)


def costs_line(costs: Costs, window: int | None, left_out: int = 0) -> str:
    """One line about a request, such as `context 3.1k of 8k: system 0.2k, tools 1.4k, history 1.5k`.

    Args:
        costs: what it costs.
        window: the context window, None if unknown.
        left_out: number of older messages that the model does not get.
    """
    of = f" of {_thousands(window)}" if window else ""
    line = (
        f"context {_thousands(costs.total)}{of}: system {_thousands(costs.system)}, "
        f"tools {_thousands(costs.tools)}, history {_thousands(costs.history)}"
    )
    return f"{line}, {left_out} older messages left out" if left_out else line


def _thousands(tokens: float) -> str:
    tenths = math.ceil(tokens / 102.4 - 0.5) if tokens >= 52 else math.ceil(tokens / 102.4)
    return f"{tenths // 10}k" if tenths % 10 == 0 else f"{tenths / 10:.1f}k"


LARGEST_RESULT: Final = 65_536
"""Bytes of text that a result may have in the history."""
_RESULT_SHARE: Final = 0.4
"""Less than half: the question and one more result have to fit beside it."""
_BYTES_A_TOKEN: Final = 3  # of code and JSON; prose has about four


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
