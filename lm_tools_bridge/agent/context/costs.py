"""What a request costs by its parts, and the line that shows it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
