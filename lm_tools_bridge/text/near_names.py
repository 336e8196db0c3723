"""Finds the known name that an unknown one was probably meant to be. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

# difflib takes quadratic time: both bounds keep the answer to a mistyped name quick, whatever a client sends.
_LONGEST: Final = 128
_MOST: Final = 2000
"""Known names that are compared."""


def near(name: str, names: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known names that are most like this one, in any case, best first."""
    from difflib import get_close_matches  # noqa: PLC0415  only who mistypes pays for it

    folded = {candidate.lower(): candidate for candidate in islice(names, _MOST)}
    matches = get_close_matches(name.lower()[:_LONGEST], folded, n=count, cutoff=cutoff)
    return [folded[candidate] for candidate in matches]


def did_you_mean(name: str, names: Iterable[str], *, count: int = 1) -> str:
    """The end of a message about an unknown name: the nearest known ones, if there are any."""
    matches = near(name, names, count=count)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
