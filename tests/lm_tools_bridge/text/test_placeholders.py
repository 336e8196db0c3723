from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.placeholders import (
    MAX_DEPTH,
    PlaceholderValues,
    UnresolvedPlaceholderError,
)

VALUES = PlaceholderValues(Path("/p"), {"SET": "s"})


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${A:-x}", "x"),
        ("${A:-${B:-x}}", "x"),
        ("${A:-${B:-${C:-x}}}", "x"),
        ("${A:-${B:-${SET}}}!", "s!"),
        ("a${A:-{${B:-{}}}}z", "a{{}}z"),
        ("${A:-${B:-}}", ""),
        ("${open ${SET}", "${open s"),
        ("${", "${"),
    ],
)
def test_defaults_stand_in_defaults(written: str, value: str) -> None:
    assert VALUES.expand(written, placeholders.TOML) == value


def test_every_default_that_is_used_is_named() -> None:
    assert set(VALUES.defaulted("${A:-${B:-x}} ${SET:-${C:-y}}", placeholders.TOML)) == {"A", "B"}


def test_a_hostile_depth_is_refused() -> None:
    def nested(depth: int) -> str:
        return "${A:-" * depth + "x" + "}" * depth

    assert VALUES.expand(nested(MAX_DEPTH), placeholders.TOML) == "x"
    with pytest.raises(UnresolvedPlaceholderError, match="levels deep"):
        VALUES.expand(nested(10_000), placeholders.TOML)
