"""Decides from a provider's count of a prompt whether the provider cut it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SMALLEST_WINDOW: Final = 2000
"""No provider has smaller windows. Smaller counts come from providers that do not count what they cached."""
_SHARES: Final = (0.55, 0.75, 0.75, 0.88)
"""The part of the estimate that a whole prompt has at least, by the number of counts that corrected it."""
_GROWN: Final = 1.02
_SIMILAR: Final = 0.7


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
