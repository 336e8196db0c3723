"""Chooses the size of the context window: in steps, never smaller than before, within what is allowed. Pure.

Ollama loads a model again when a request asks for another window, so sizes are few and only grow.
"""

from __future__ import annotations

from typing import Final

from lm_tools_bridge.agent.model_events import ModelWindow

SMALLEST: Final = 4096
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
