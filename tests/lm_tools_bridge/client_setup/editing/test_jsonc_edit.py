"""Tests that a change of one member keeps every other character of a JSON file."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.client_setup.editing.jsonc_edit import value_at, with_member, without_member
from lm_tools_bridge.client_setup.refusals import FormProblem
from lm_tools_bridge.text.jsonc_parser import Dialect, Document, parse
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

RELAXED = Dialect(comments=True, trailing_commas=True)
PATH = ("servers", "ours")
ENTRY = {"url": "http://127.0.0.1:5/mcp", "on": True}

names = st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(names, values, max_size=4)
layouts = st.sampled_from([None, 0, 1, 2, 4, "\t"])


def edited(text: str, value: Any = ENTRY, path: tuple[str, ...] = PATH) -> str:
    result = with_member(text, path, value, RELAXED)
    assert isinstance(result, str), result
    return result


def removed(text: str, path: tuple[str, ...] = PATH) -> str:
    result = without_member(text, path, RELAXED)
    assert isinstance(result, str), result
    return result


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(one in rest for one in part)


@given(objects, objects, layouts)
def test_an_added_member_is_last_and_nothing_else_changes(above: Any, servers: Any, indent: Any) -> None:
    value = {**above, "servers": {name: one for name, one in servers.items() if name != "ours"}}
    text = json.dumps(value, indent=indent)
    after = edited(text)
    expected = {**value, "servers": {**value["servers"], "ours": ENTRY}}
    assert json.dumps(json.loads(after)) == json.dumps(expected)
    assert is_subsequence(text, after) or not value["servers"]  # an empty object is broken into lines


@given(objects, layouts)
def test_a_missing_container_is_made(above: Any, indent: Any) -> None:
    value = {name: one for name, one in above.items() if name != "servers"}
    after = edited(json.dumps(value, indent=indent))
    assert json.loads(after) == {**value, "servers": {"ours": ENTRY}}


@given(objects, layouts, st.booleans(), st.integers(0, 4))
def test_a_removed_member_is_gone_and_nothing_else_changes(
    servers: Any, indent: Any, tight: bool, place: int
) -> None:
    others = [(name, one) for name, one in servers.items() if name != "ours"]
    inside = dict([*others[:place], ("ours", ENTRY), *others[place:]])
    text = json.dumps({"servers": inside}, indent=indent, separators=(",", ":") if tight else None)
    after = removed(text)
    assert json.dumps(json.loads(after)) == json.dumps({"servers": dict(others)})
    assert is_subsequence(after, text)


@given(objects, st.sampled_from([1, 2, 4, "\t"]))
def test_removing_what_was_added_to_a_file_in_lines_gives_the_same_bytes(servers: Any, indent: Any) -> None:
    others = {name: one for name, one in servers.items() if name != "ours"} | {"last": 1}
    text = json.dumps({"servers": others}, indent=indent)
    assert removed(edited(text)) == text


@given(objects, values, layouts)
def test_a_replaced_value_keeps_the_place_of_its_member(servers: Any, new: Any, indent: Any) -> None:
    value = {"servers": {**servers, "ours": 1, "z": 2}}
    after = edited(json.dumps(value, indent=indent), new)
    assert json.dumps(json.loads(after)) == json.dumps({"servers": {**servers, "ours": new, "z": 2}})


TABLE = [
    # an empty text, and empty objects
    ("", '{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
    (" \n", '{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
    ("{}", '{"servers": {"ours": 1}}'),
    ("{\n}\n", '{\n  "servers": {\n    "ours": 1\n  }\n}\n'),
    ('{"servers":{"a":1}}', '{"servers":{"a":1,"ours":1}}'),
    # comments stay where they are
    (
        '{\n  "servers": {\n    // none\n  }\n}\n',
        '{\n  "servers": {\n    // none\n    "ours": 1\n  }\n}\n',
    ),
    (
        '// top\n{\n  "servers": {\n    "a": 1 // why\n    // end\n  } /* x */\n}\n',
        '// top\n{\n  "servers": {\n    "a": 1, // why\n    // end\n    "ours": 1\n  } /* x */\n}\n',
    ),
    ('{"servers": {"a": 1 /* x */}}', '{"servers": {"a": 1, /* x */ "ours": 1}}'),
    # trailing commas, tabs, CRLF
    (
        '{\n\t"servers": {\n\t\t"a": 1,\n\t},\n}',
        '{\n\t"servers": {\n\t\t"a": 1,\n\t\t"ours": 1,\n\t},\n}',
    ),
    (
        '{\r\n    "x": 1\r\n}\r\n',
        '{\r\n    "x": 1,\r\n    "servers": {\r\n        "ours": 1\r\n    }\r\n}\r\n',
    ),
    # a brace on a line of its own
    ('{\n  "servers":\n  {\n  }\n}', '{\n  "servers":\n  {\n    "ours": 1\n  }\n}'),
]


@pytest.mark.parametrize(("before", "after"), TABLE)
def test_a_member_is_added_in_the_style_of_the_file(before: str, after: str) -> None:
    assert edited(before, 1) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"servers": {"ours": 1}}', '{"servers": {}}'),
        ('{"servers": {"a": 1, "ours": 1}}', '{"servers": {"a": 1}}'),
        ('{"servers": {"ours": 1, "a": 1}}', '{"servers": {"a": 1}}'),
        (
            '{"servers": {\n  "a": 1, // a\n  "ours": 1 // ours\n}}',
            '{"servers": {\n  "a": 1 // a\n  // ours\n}}',
        ),
        (
            '{"servers": {\n  // ours is old\n  "ours": 1,\n  // b\n  "b": 1,\n}}',
            '{"servers": {\n  // ours is old\n  // b\n  "b": 1,\n}}',
        ),
        (
            '{"servers": {\n  "a": 1,\n  "ours": {\n    "x": 1 // in it\n  }\n}}',
            '{"servers": {\n  "a": 1\n}}',
        ),
        ('{"servers": {\r\n\t"a": 1,\r\n\t"ours": 1\r\n}}\r\n', '{"servers": {\r\n\t"a": 1\r\n}}\r\n'),
    ],
)
def test_a_member_is_removed_and_comments_around_it_stay(before: str, after: str) -> None:
    assert removed(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # where a line feed or a comma is what keeps a comment apart
        ('{"servers": {// a\n"ours": 1}}', '{"servers": {// a\n}}'),
        ('{"servers": {"a": 1, // a\n "ours": 1}}', '{"servers": {"a": 1 // a\n}}'),
        ('{"servers": {"ours": 1// b\n,}}', '{"servers": {// b\n}}'),
        ('{"servers": {"ours" /* in it */: 1, "a": 1}}', '{"servers": {"a": 1}}'),
    ],
)
def test_a_comment_in_an_odd_place_is_no_hindrance(before: str, after: str) -> None:
    assert removed(before) == after


def with_comments(value: Any, random: Random) -> str:
    """A value as text, with blanks and comments in places where they may be."""

    def gap() -> str:
        return random.choice(["", "", " ", "\n  ", "\r\n\t", "/* c */", "// l\n", " // m\r\n"])

    if not isinstance(value, dict):
        return gap() + json.dumps(value) + gap()
    members = [
        f"{gap()}{json.dumps(name)}{gap()}:{with_comments(one, random)}" for name, one in value.items()
    ]
    end = random.choice(["", ","]) if members else ""
    return f"{gap()}{{{','.join(members)}{end}{gap()}}}{gap()}"


@given(objects, objects, st.randoms(use_true_random=False))
def test_comments_in_any_place_are_no_hindrance_and_stay(above: Any, servers: Any, random: Random) -> None:
    value = {**above, "servers": {name: one for name, one in servers.items() if name != "ours"}}
    text = with_comments(value, random)
    after = edited(text)
    found, old = parse(after, RELAXED), parse(text, RELAXED)
    assert isinstance(found, Document) and isinstance(old, Document)
    assert found.root.value == {**value, "servers": {**value["servers"], "ours": ENTRY}}
    assert len(found.comments) == len(old.comments)
    back = parse(removed(after), RELAXED)
    assert isinstance(back, Document)
    assert (back.root.value, len(back.comments)) == (value, len(old.comments))


def test_a_comment_inside_an_object_survives_a_change_of_one_value() -> None:
    text = '{"servers": {\n  "ours": {\n    // local\n    "url": "a", // b\n    "on": true\n  }\n}}'
    assert edited(text, "c", (*PATH, "url")) == text.replace('"a"', '"c"')


def test_letters_beyond_ascii_are_written_as_they_are() -> None:
    assert edited('{"é": 1}', "ü") == '{"é": 1, "servers": {"ours": "ü"}}'


@pytest.mark.parametrize("text", ["[]", "1", '"a"', '{"servers": []}', '{"servers": null}'])
def test_what_is_no_object_is_refused(text: str) -> None:
    for result in (with_member(text, PATH, 1), without_member(text, PATH), value_at(text, PATH)):
        assert isinstance(result, FormProblem)
        assert result.reason == "not_an_object"


@pytest.mark.parametrize("text", ["{", '{"servers": {}} x', "// only a comment"])
def test_a_broken_text_is_refused(text: str) -> None:
    for result in (with_member(text, PATH, 1), without_member(text, PATH), value_at(text, PATH)):
        assert isinstance(result, SyntaxProblem)


def test_a_member_that_is_missing_cannot_be_removed() -> None:
    assert isinstance(without_member('{"servers": {}}', PATH), FormProblem)
    assert isinstance(without_member("{}", PATH), FormProblem)


def test_values_are_looked_up() -> None:
    assert value_at("", PATH) is None
    assert value_at("{}", PATH) is None
    assert value_at('{"servers": {}}', PATH) is None
    assert value_at('{"servers": {"ours": {"a": [1]}}}', PATH) == {"a": [1]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            '{\n  "servers": {\n    "ours": {\n      "url": "old"\n    },\n    "b": 1\n  }\n}\n',
            '{\n  "servers": {\n    "ours": {\n      "url": "http://127.0.0.1:5/mcp",\n      "on": true\n    },\n    "b": 1\n  }\n}\n',
            id="over several lines stays so",
        ),
        pytest.param(
            '{\r\n\t"servers": {\r\n\t\t"ours": {\r\n\t\t\t"url": "old"\r\n\t\t}\r\n\t}\r\n}\r\n',
            '{\r\n\t"servers": {\r\n\t\t"ours": {\r\n\t\t\t"url": "http://127.0.0.1:5/mcp",\r\n\t\t\t"on": true\r\n\t\t}\r\n\t}\r\n}\r\n',
            id="with tabs and the line ends of the file",
        ),
        pytest.param(
            '{\n  "servers": {\n    "ours": {"url": "old"}\n  }\n}\n',
            '{\n  "servers": {\n    "ours": {"url": "http://127.0.0.1:5/mcp", "on": true}\n  }\n}\n',
            id="in one line stays so",
        ),
        pytest.param(
            '{\n  "servers": {\n    "ours": null\n  }\n}\n',
            '{\n  "servers": {\n    "ours": {\n      "url": "http://127.0.0.1:5/mcp",\n      "on": true\n    }\n  }\n}\n',
            id="a single value becomes lines in a file of lines",
        ),
        pytest.param(
            '{"servers":{"ours":null}}',
            '{"servers":{"ours":{"url":"http://127.0.0.1:5/mcp","on":true}}}',
            id="and stays in the line of a file of one line",
        ),
        pytest.param(
            '{"servers": {"ours": {\n "url": "old"}}}',
            '{"servers": {"ours": {\n  "url": "http://127.0.0.1:5/mcp",\n  "on": true\n}}}',
            id="an object over lines in a line begins at the indent of that line",
        ),
    ],
)
def test_a_replaced_entry_has_the_layout_of_the_old_one(before: str, after: str) -> None:
    assert edited(before) == after


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("behind", ["", ',@    "b": 1'])
def test_an_entry_over_several_lines_is_removed_with_its_lines(end: str, behind: str) -> None:
    lines = '{@  "servers": {@    "a": 1,@    "ours": {@      "url": "x",@      "on": true@    }BEHIND@  }@}@'
    text = lines.replace("BEHIND", behind).replace("@", end)
    rest = '{@  "servers": {@    "a": 1BEHIND@  }@}@'.replace("BEHIND", behind).replace("@", end)
    assert removed(text) == rest
