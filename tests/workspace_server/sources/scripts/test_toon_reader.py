"""Reading TOON."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_server.sources.scripts.library.lmtb_toon import encode
from workspace_server.sources.scripts.library.lmtb_toon_reader import decode

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.sampled_from([0.5, -1.25, 3e-5, "- a", "[1]: x", "a: b"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
        st.lists(st.fixed_dictionaries({"id": SCALARS, "a b": SCALARS}), max_size=3),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_was_written_is_read(value: Any) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("\n \n", {}),
        ("plain words", "plain words"),
        ("007", "007"),
        ("1e3", 1000.0),
        ("a: 1\r\nb: x y\r\n", {"a": 1, "b": "x y"}),
        ("a:\n    b:\n        c: 1\nd: 2", {"a": {"b": {"c": 1}}, "d": 2}),
        ("u[2|]{id|n}:\n  1|a,b\n  2|c", {"u": [{"id": 1, "n": "a,b"}, {"id": 2, "n": "c"}]}),
        ("u[2\t]: a\tb c", {"u": ["a", "b c"]}),
        ("u[1]{id}:\n  7", {"u": [{"id": 7}]}),
        ("tags:\n  - a\n  - b", {"tags": ["a", "b"]}),
        ("- 1\n- a: 2", [1, {"a": 2}]),
        ("u[2]:\n  - a: 1\n  b: 2\n  - a: 3\n  b: 4", {"u": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]}),
        ("u[1]:\n  -", {"u": [{}]}),
        ('"a b"[1]: "x\\ny"', {"a b": ["x\ny"]}),
        ('u: "c: d"', {"u": "c: d"}),
    ],
)
def test_other_writers_are_understood(text: str, value: Any) -> None:
    assert decode(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nno member",
        "u[3]: 1,2",
        "u[2]{a,b}:\n  1,2\n  3",
        "u[2]{a}:\n  1",
        'a: "open',
        "a: 1\n    b: 2",
        "\n".join(" " * depth + "a:" for depth in range(5000)),
    ],
)
def test_text_that_is_no_toon_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode(text)


def test_reader_needs_nothing_of_the_project() -> None:
    module = sys.modules[decode.__module__]
    assert not [name for name in vars(module) if name.startswith("workspace_server")]
