"""Tests of the temporary block of an import."""

from __future__ import annotations

import sys

import pytest

from lm_tools_bridge.machine.blocked_import import blocked_import


def test_a_blocked_module_cannot_be_imported() -> None:
    with blocked_import("colorsys"), pytest.raises(ImportError):
        import colorsys  # noqa: F401  the import is what is tested
    assert "colorsys" not in sys.modules or sys.modules["colorsys"] is not None


def test_the_module_can_be_imported_afterwards() -> None:
    with blocked_import("colorsys"):
        pass
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


def test_a_module_imported_before_stays_imported() -> None:
    import json

    with pytest.raises(RuntimeError), blocked_import("json"):
        raise RuntimeError
    assert sys.modules["json"] is json
