"""Names of variables in what a program wrote, and the line that passes them on."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.missing_variables import MAX_NAMES, named_in, passing_on


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
    assert named_in([line], {"GOT_IT"}) == names


def test_only_the_first_names_count() -> None:
    assert len(named_in([" ".join(f"NAME_{number}" for number in range(50))], ())) == MAX_NAMES


def test_the_line_is_written_as_in_the_file_of_the_entry() -> None:
    assert passing_on(["A_B", "C_D"]) == 'env = { A_B = "${A_B}", C_D = "${C_D}" }'
    assert passing_on(["A_B"], as_json=True) == '"env": {"A_B": "${A_B}"}'
