"""What cannot be a name is refused before a server renames to it."""

from __future__ import annotations

import pytest

from lm_tools_bridge.code_intelligence.tools.editing.rename_symbol import why_no_name


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        *((name, ".py") for name in ("höhe", "_x1", "match")),
        *((name, ".ts") for name in ("$el", "#secret", "Straße", "async", "of")),
        *((name, ".css") for name in ("--main-color", "a-b")),
        *((name, ".rs") for name in ("r#type", "x")),
        ("operator+", ".cpp"),
    ],
)
def test_names_of_each_language_are_names(text: str, suffix: str) -> None:
    assert why_no_name(text, None) == why_no_name(text, suffix) == ""


@pytest.mark.parametrize(
    ("text", "suffix", "reason"),
    [
        ("two words", None, "must be a name"),
        ("a/b", None, "must be a name"),
        ("f()", None, "must be a name"),
        ("x;y", None, "must be a name"),
        ("class", ".py", "class is a reserved word in Python"),
        ("a-b", ".py", "a-b is no name in Python"),
        ("1st", ".tsx", "1st is no name in JavaScript"),
        ("function", ".js", "function is a reserved word in JavaScript"),
    ],
)
def test_what_is_no_name_is_told_with_the_reason(text: str, suffix: str | None, reason: str) -> None:
    assert why_no_name(text, suffix).startswith(reason)
