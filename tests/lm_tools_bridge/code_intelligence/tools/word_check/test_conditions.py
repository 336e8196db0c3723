"""Code that a condition can leave out is known with its condition."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.tools.word_check.conditions import (
    MAX_CONDITION,
    condition_at,
    find_conditions,
)


def told(text: str, suffix: str) -> dict[str, str]:
    """The condition of each line that has the letter `x` and a number."""
    lines = text.strip("\n").split("\n")
    conditions = find_conditions(lines, suffix)
    return {
        line.split("//")[0].strip(" ;,{}()"): condition_at(conditions, number)
        for number, line in enumerate(lines)
        if line.strip().startswith("x")
    }


def test_branches_of_the_preprocessor() -> None:
    text = """
#ifndef GUARD_H
#define GUARD_H
x0;
#ifdef USE_TLS /* both */
x1;
#  if defined(A) && \\
x2;
#  endif
#elif B > 1
x3;
#else
x4;
#endif // USE_TLS
x5;
#endif
"""
    assert told(text, ".h") == {
        "x0": "",
        "x1": "#ifdef USE_TLS",
        "x2": "#if defined(A) && \\",
        "x3": "#elif B > 1",
        "x4": "#else of #elif B > 1",
        "x5": "",
    }


def test_a_condition_without_an_end_and_an_end_without_a_condition_harm_nothing() -> None:
    assert told("#endif\nx1;\n#if A\nx2;", ".c") == {"x1": "", "x2": ""}


def test_attributes_of_rust() -> None:
    text = """
x0;
#[cfg(windows)]
#[inline]
fn f(a: [u8; 3]) -> u8 {
    let s = "}";
x1;
}
x2;
#[cfg(feature = "serde")]
use serde::{
x3,
};
x4;
struct S {
    #[cfg(test)]
x5: u8,
x6: u8,
}
"""
    assert {name.partition(":")[0]: condition for name, condition in told(text, ".rs").items()} == {
        "x0": "",
        "x1": "#[cfg(windows)]",
        "x2": "",
        "x3": '#[cfg(feature = "serde")]',
        "x4": "",
        "x5": "#[cfg(test)]",
        "x6": "",
    }


def test_an_attribute_of_a_whole_file_of_rust() -> None:
    assert told("#![cfg(unix)]\nx1;\nx2;", ".rs") == {"x1": "#![cfg(unix)]", "x2": "#![cfg(unix)]"}


def test_platforms_of_python() -> None:
    text = """
x0
if sys.platform == "win32":
    # a comment
x_out
x1 = 1
"""
    assert told(text, ".py") == {"x0": "", "x_out": "", "x1 = 1": ""}
    text = """
def f():
    if sys.version_info >= (3, 12):
        x1

        x2
    elif other:
        x3
    else:
        x4
    x5
assert sys.platform == "linux"
x6
"""
    condition = "if sys.version_info >= (3, 12)"
    assert told(text, ".py") == {
        "x1": condition,
        "x2": condition,
        "x3": f"else of {condition}",
        "x4": f"else of {condition}",
        "x5": "",
        "x6": 'assert sys.platform == "linux"',
    }


def test_other_conditions_and_languages_have_none() -> None:
    assert find_conditions(["if debug:", "    x"], ".py") == []
    assert find_conditions(["#if A", "x", "#endif"], ".ts") == []


@pytest.mark.parametrize("suffix", [".c", ".rs", ".py"])
def test_long_conditions_are_cut(suffix: str) -> None:
    words = " ".join(["sys.platform"] * 50)
    text = {".c": f"#if {words}\nx1;\n#endif", ".rs": f"#[cfg({words})]\nx1;", ".py": f"if {words}:\n  x1"}
    (condition,) = told(text[suffix], suffix).values()
    assert len(condition) == MAX_CONDITION + 1
