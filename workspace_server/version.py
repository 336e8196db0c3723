"""The version of the product, as its installation says."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """The version, or `0` when the program runs from files that were never installed."""
    try:
        return installed("lm-tools-bridge")
    except PackageNotFoundError:
        return "0"
