"""Lets a library be loaded as if another one were not installed that it would only take along.

Only for what libraries offer beside what is needed here, where time and memory would be spent on it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from types import ModuleType

_NONE: Final = cast("ModuleType", None)
"""What Python takes for the word that there is no such module."""
_one_at_a_time = threading.RLock()
"""Two that put one module back would lose it."""


@contextmanager
def absent(name: str) -> Iterator[None]:
    """The module cannot be imported for as long as the block lasts; who has it already keeps it."""
    with _one_at_a_time:
        before = sys.modules.get(name)
        sys.modules[name] = _NONE
        try:
            yield
        finally:
            del sys.modules[name]
            if before is not None:
                sys.modules[name] = before
