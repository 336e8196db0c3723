"""Pauses the garbage collector during the start, then freezes what was loaded and collects rarely.

A call makes some dozens of objects and no cycles, which reference counting frees. So the collector need not
scan the program itself, nor run after every 700 objects.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (10_000, 20, 50)
"""Thresholds of the three generations, as for `gc.set_threshold`."""


def pause() -> None:
    """Collect nothing during the start, because imported modules stay."""
    gc.disable()


def resume() -> None:
    """Collect what the start left behind, exclude all living objects from now on, and collect rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
