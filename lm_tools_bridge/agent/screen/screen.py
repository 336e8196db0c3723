"""Defines what a session needs of a screen, and counts Ctrl-C: a second one within two seconds leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from rich.cells import cell_len

from lm_tools_bridge.agent.interaction import Interaction
from lm_tools_bridge.text.printable import printable

WIDEST: Final = 80
"""Columns of a box at most, also on a wider terminal."""
_NARROWEST: Final = 47
"""Columns of a box at least, where the terminal has them, so that boxes in a row look alike."""
_TAB: Final = "    "


def width(columns: int) -> int:
    """The columns of a box that is as wide as boxes become on a terminal of this size."""
    return max(min(WIDEST, columns), 8)


def box(title: str, lines: Sequence[str], columns: int) -> list[str]:
    """The lines of a rounded box on a terminal of this size; hostile characters are escaped."""
    inner = width(columns) - 4
    rows = [row for line in lines for row in wrapped(shown(line), inner)]
    needed = max([cell_len(row) for row in rows] + [cell_len(title) + 2], default=0)
    inner = min(inner, max(needed, _NARROWEST - 4))
    return [top(title, inner + 4), *(middle(row, inner + 4) for row in rows), bottom(inner + 4)]


def top(title: str, total: int) -> str:
    """The first line of a box."""
    head = f"╭─ {cut(title, total - 6)} "
    return f"{head}{'─' * (total - 1 - cell_len(head))}╮"


def middle(row: str, total: int) -> str:
    """A line in a box; `row` fits in it."""
    return f"│ {row}{' ' * (total - 4 - cell_len(row))} │"


def bottom(total: int) -> str:
    """The last line of a box."""
    return f"╰{'─' * (total - 2)}╯"


def shown(text: str) -> str:
    """A text of one or several lines as it may be printed."""
    return printable(text, lines=True).replace("\t", _TAB)


def wrapped(text: str, columns: int) -> Iterator[str]:
    """The rows that a text takes, broken at blanks where there are some, never within a wide character."""
    for line in text.split("\n"):
        remainder = line
        while cell_len(remainder) > columns:
            head = cut(remainder, columns) or remainder[:1]
            blank = head.rfind(" ")
            if remainder[len(head)] != " " and blank > len(head) // 2:
                head = head[:blank]
            yield head.rstrip(" ")
            remainder = remainder[len(head) :].lstrip(" ")
        yield remainder


def cut(text: str, columns: int) -> str:
    """The longest beginning of a text that fits into this many columns."""
    if text.isascii():
        return text[: max(columns, 0)]
    used = 0
    for at, character in enumerate(text):
        used += cell_len(character)
        if used > columns:
            return text[:at]
    return text


def state_line(name: str, *, asks: bool, context: str = "") -> str:
    """The line with the model, whether calls are asked about, and how full the context is."""
    line = f"MODEL: {name} | HIL: {'ACTIVE' if asks else 'OFF'}"
    return f"{line} | {context}" if context else line


def model_name(provider: str, model: str) -> str:
    """How the line names a model, or that there is none."""
    return model or f"none ({provider})"


TWICE_S: Final = 2.0
"""Time enough to read the hint; later Ctrl-C is one for another turn, and must not end the session."""
HINT: Final = "press Ctrl-C again to leave"


class Cancellable(Protocol):
    """A task."""

    def cancel(self) -> Any:
        """Cancel it."""

    def done(self) -> bool:
        """Whether it has ended."""


class Interrupts:
    """Counts Ctrl-C, from a signal as well as from a key.

    Attributes:
        leaving: whether the agent is to leave.
        turn: what runs now, and is cancelled; None between turns.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.leaving = False
        self.turn: Cancellable | None = None
        self._clock = clock
        self._last: float | None = None

    def press(self) -> bool:
        """Ctrl-C was pressed; True if the agent is to leave now."""
        now = self._clock()
        self.leaving = self._last is not None and now - self._last <= TWICE_S
        self._last = now
        if self.turn is not None and not self.turn.done():
            self.turn.cancel()
        return self.leaving


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
