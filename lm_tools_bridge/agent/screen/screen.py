"""Defines what a session needs of a screen, beside the interaction of a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lm_tools_bridge.agent.interaction import Interaction


class Interrupted(Exception):
    """Ctrl-C was pressed at the prompt between turns."""


class Screen(Interaction, Protocol):
    """A person's terminal or a pipe, for a whole session."""

    async def next_input(self, state: str) -> str | None:
        """What the person enters next, below a line with the agent's state; None at the end of input.

        Raises:
            Interrupted: Ctrl-C was pressed, which removes what was typed so far.
        """
        ...

    def lines(self, lines: Sequence[str]) -> None:
        """Show lines of the agent itself, such as a table or help."""
        ...

    def close(self) -> None:
        """Restore the terminal."""
        ...


Completions = Callable[[str], Sequence[tuple[str, str]]]
"""What a beginning of an input can become, each with a short explanation."""
