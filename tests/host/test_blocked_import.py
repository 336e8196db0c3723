"""What is absent is absent for a while only."""

from __future__ import annotations

import sys

import pytest

from host.blocked_import import blocked_import


def test_an_absent_module_cannot_be_imported() -> None:
    with blocked_import("colorsys"), pytest.raises(ImportError):
        import colorsys  # noqa: F401
    assert "colorsys" not in sys.modules or sys.modules["colorsys"] is not None


def test_it_can_be_imported_afterwards() -> None:
    with blocked_import("colorsys"):
        pass
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


def test_who_has_it_keeps_it() -> None:
    import json

    with pytest.raises(RuntimeError), blocked_import("json"):
        raise RuntimeError
    assert sys.modules["json"] is json
