"""Reads the version of the installed distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Final


def version() -> str:
    """The version, or `0` when the program runs from files that were never installed."""
    return _VERSION


def _read() -> str:
    try:
        return installed("lm-tools-bridge")
    except PackageNotFoundError:
        return "0"


_VERSION: Final = _read()  # as old as the program: a file is not read twice
