"""Imports a library as if an optional dependency of it were not installed, which saves time and memory.

Only for what libraries offer beside what is needed here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from types import ModuleType

_BLOCKED: Final = cast("ModuleType", None)
"""An entry of `sys.modules` that makes an import of the name fail."""
_lock = threading.RLock()
"""Two threads that restore the same entry would lose it."""


def import_unblocked(name: str) -> ModuleType:
    """Import a module while no thread blocks what it needs."""
    with _lock:
        return import_module(name)


@contextmanager
def blocked_import(name: str) -> Iterator[None]:
    """Imports of the module `name` fail inside the block; a module imported earlier is restored after it."""
    with _lock:
        before = sys.modules.get(name)
        sys.modules[name] = _BLOCKED
        try:
            yield
        finally:
            del sys.modules[name]
            if before is not None:
                sys.modules[name] = before
