"""The C library is asked to keep memory where there is one that can be asked; nowhere does it hurt."""

from __future__ import annotations

import platform

from manager.runtime_tuning import malloc


def test_glibc_takes_the_bounds_and_others_are_left_alone() -> None:
    assert malloc.keep_freed_memory() is (platform.libc_ver()[0] == "glibc")
