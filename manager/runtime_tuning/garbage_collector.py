"""Pauses the garbage collector during the start, then freezes what was loaded and collects rarely.

A call makes some dozens of objects and no cycles, which reference counting frees. So the collector need not
scan the program itself, nor run after every 700 objects.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (10_000, 20, 50)
"""Objects more than before until the young ones are looked at; how many such looks until older ones are."""


def hold() -> None:
    """Collect nothing for now: what is imported stays."""
    gc.disable()


def settle() -> None:
    """Collect what the start has left, take all that is there out of sight, and be patient from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
