"""Tests the parser of JSON with comments against the one of the standard library, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lm_tools_bridge.text.jsonc_parser import (
    JSON,
    MAX_DEPTH,
    Dialect,
    Document,
    Node,
    parse,
)
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

COMMENTS = Dialect(comments=True)
RELAXED = Dialect(comments=True, trailing_commas=True)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)
layouts = st.sampled_from([None, 0, 1, 2, "\t"])


def nodes(node: Node) -> list[Node]:
    return [node, *(one for member in node.members for one in nodes(member.value))]


def root(text: str, dialect: Dialect = JSON) -> Node:
    document = parse(text, dialect)
    assert isinstance(document, Document), document
    return document.root


@given(values, layouts, st.booleans())
def test_every_json_text_has_the_value_that_json_gives_it(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    for dialect in (JSON, COMMENTS, RELAXED):
        assert root(text, dialect).value == json.loads(text)


@given(values, layouts)
def test_the_text_of_every_node_has_its_value(value: Any, indent: Any) -> None:
    text = json.dumps(value, indent=indent)
    for node in nodes(root(text)):
        assert json.loads(text[node.start : node.end]) == node.value


@given(st.text(alphabet='{}[]":,/*\\n\n\t 01.eE+-truefalsnu', max_size=25))
@example("01")
@example("-")
@example("1.")
@example('"\\x"')
@example('"\t"')
@example("[1,]")
@example("{}{}")
@example("\u00a01")
@example("\ufeff1")
def test_what_is_no_json_is_refused_and_all_that_is_json_is_read(text: str) -> None:
    ours = parse(text)
    try:
        theirs = json.loads(text)
    except ValueError:
        assert isinstance(ours, SyntaxProblem)
        return
    if isinstance(ours, SyntaxProblem):
        assert "twice" in ours.text
    else:
        assert json.dumps(ours.root.value) == json.dumps(theirs)


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "'a'", "{a: 1}", "0x1", "+1", ".5", "undefined"]
)
def test_what_other_dialects_know_is_refused(text: str) -> None:
    assert isinstance(parse(text, RELAXED), SyntaxProblem)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ('{"a": 1', 1),
        ('{\n"a": 1\n"b": 2}', 3),
        ('{"a":\n\n}', 3),
        ("{\n\n/* open", 3),
        ('{"a": 1}\n\nx', 3),
        ('{"a": 1,\n"a": 2}', 2),
        ("[1,,2]", 1),
        ("{,}", 1),
        ("[" * (MAX_DEPTH + 1), 1),
        ("9" * 500, 1),
        ('{"a" 1}', 1),
        ('"\n"', 1),
    ],
)
def test_a_broken_text_is_a_problem_with_its_line(text: str, line: int) -> None:
    problem = parse(text, RELAXED)
    assert isinstance(problem, SyntaxProblem)
    assert problem.line == line
    assert problem.text


def test_nesting_up_to_the_limit_is_read() -> None:
    assert isinstance(parse("[" * MAX_DEPTH + "]" * MAX_DEPTH), Document)


def test_comments_and_trailing_commas_need_their_dialect() -> None:
    commented, trailing = '{"a": 1 /* x */}', '{"a": [1,],}'
    assert isinstance(parse(commented), SyntaxProblem)
    assert isinstance(parse(trailing, COMMENTS), SyntaxProblem)
    assert root(commented, COMMENTS).value == {"a": 1}
    assert root(trailing, RELAXED).value == {"a": [1]}


def test_comments_are_found_in_their_order_and_not_in_strings() -> None:
    text = '// 1\n{"a//": "/* no */", /* 2 */ "b": [ // 3\n ]} // 4'
    document = parse(text, COMMENTS)
    assert isinstance(document, Document)
    assert [text[start:end] for start, end in document.comments] == ["// 1", "/* 2 */", "// 3", "// 4"]


def test_a_member_knows_where_its_comma_ends() -> None:
    text = '{"a": 1 /* c */ , "b": 2}'
    first, second = root(text, COMMENTS).members
    assert text[first.start : first.comma_end] == '"a": 1 /* c */ ,'
    assert second.comma_end is None
