"""The garbage collector while the manager starts and once it is up: what is there stays, what comes can wait.

A call makes some dozens of objects and no cycles; reference counts free them. The collector exists for what
was forgotten, so it need not look at the program itself each time, nor after every 700 objects.
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
