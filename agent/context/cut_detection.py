"""Decides from a provider's count of a prompt whether the provider cut it. Pure."""

from __future__ import annotations

from typing import Final

_SMALLEST_WINDOW: Final = 2000
"""No provider has smaller windows. Smaller counts come from providers that do not count what they cached."""
_UNSURE: Final = 0.55
_SURE: Final = 0.75


def was_cut(*, expected: float, counted: int, window: int | None, corrected: bool) -> bool:
    """Whether the provider read only a part of the prompt.

    Args:
        expected: the estimate in tokens.
        counted: what the provider says that it read.
        window: the window that was asked for or is known.
        corrected: whether earlier counts corrected the estimate.
    """
    if window is not None and counted >= window - 8:
        return expected > window  # a prompt that exactly fills the window lost what did not fit
    if counted >= expected * (_SURE if corrected else _UNSURE):
        return False
    return counted >= min(_SMALLEST_WINDOW, window // 2 if window else _SMALLEST_WINDOW)


def cut_notice(provider: str, *, expected: float, counted: int) -> str:
    """What a person is told about it."""
    return (
        f"{provider} read {counted:,} of about {round(expected, -2):,.0f} tokens: it cut the beginning of "
        "the request, where the system prompt and the tools are. Requests stay below that size from now on; "
        "for more, use a model with a larger context window"
    )
