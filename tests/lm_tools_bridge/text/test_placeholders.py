from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.placeholders import (
    MAX_DEPTH,
    MAX_NAMES,
    PlaceholderValues,
    UnresolvedPlaceholderError,
    missing_variables_in,
    passing_on,
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


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Error: GITHUB_TOKEN environment variable is required", ["GITHUB_TOKEN"]),
        ("set process.env.API_KEY_2, or $OTHER_KEY!", ["API_KEY_2", "OTHER_KEY"]),
        ("KeyError: 'A_B' A_B", ["A_B"]),
        ("FATAL ERROR in lower_case and Mixed_CASE and _X_Y and A_B_c", []),
        ("GOT_IT is invalid", []),
    ],
)
def test_a_name_has_several_words_in_capitals(line: str, names: list[str]) -> None:
    assert missing_variables_in([line], {"GOT_IT"}) == names


def test_only_the_first_names_count() -> None:
    assert len(missing_variables_in([" ".join(f"NAME_{number}" for number in range(50))], ())) == MAX_NAMES


def test_the_line_is_written_as_in_the_file_of_the_entry() -> None:
    assert passing_on(["A_B", "C_D"]) == 'env = { A_B = "${A_B}", C_D = "${C_D}" }'
    assert passing_on(["A_B"], as_json=True) == '"env": {"A_B": "${A_B}"}'
