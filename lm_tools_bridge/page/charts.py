"""Draws series of the last ten minutes as SVG, without any style of its own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from lm_tools_bridge.page.html import text
from manager.admin.measures import MOST_MOMENTS

_STEP: Final = 2
_WIDTH: Final = (MOST_MOMENTS - 1) * _STEP
_HEIGHT: Final = 30

Series = Sequence[float | None]


def chart(title: str, values: Series, format_value: Callable[[float], object]) -> str:
    """A line over time, the last value at the right, with the last and the highest value as text.

    Args:
        values: one for each moment, the oldest first; None where nothing was measured.
        format_value: writes a value with its unit.
    """
    measured = [value for value in values if value is not None]
    if not measured:
        return f"<figure><figcaption>{title}: –</figcaption></figure>"
    last = "–" if values[-1] is None else text(format_value(values[-1]))
    most = text(format_value(max(measured)))
    lines = "".join(f'<polyline points="{points}"/>' for points in _lines(values, max(measured)))
    return (
        f"<figure><figcaption>{title}: <strong>{last}</strong>, at most {most}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{title}, the last ten minutes">{lines}</svg></figure>'
    )


def _lines(values: Series, most: float) -> Iterator[str]:
    """The points of each run of known values; a run of one value is a short line."""
    run: list[tuple[int, float]] = []
    for place, value in enumerate((*values, None), MOST_MOMENTS - len(values)):
        if value is not None:
            run.append((place, value))
        elif run:
            ends = run if len(run) > 1 else [(max(0, run[0][0] - 1), run[0][1]), *run]
            yield " ".join(
                f"{at * _STEP},{_HEIGHT - 1 - (_HEIGHT - 2) * _share(v, most):.1f}" for at, v in ends
            )
            run = []


def _share(value: float, most: float) -> float:
    return value / most if most > 0 else 0.0
