"""Calls in the text of a reply: which blocks count, and that the person never sees one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.agent.providers.tool_tags import TaggedCall, ToolTags, calls_of
from support.examples import examples

A = '<tool>{"name": "a", "arguments": {"x": 1}}</tool>'
CALL = TaggedCall("a", {"x": 1})


def read(*pieces: str, cut: bool = False) -> tuple[str, list[TaggedCall]]:
    tags = ToolTags()
    shown = "".join(tags.feed(piece) for piece in pieces) + tags.end()
    return shown, calls_of(tags.blocks, cut=cut)


@pytest.mark.parametrize(
    ("reply", "shown", "calls"),
    [
        ("Nothing to do.\n", "Nothing to do.\n", []),
        (A, "", [CALL]),
        (f"I look.\n\n{A}\n\nSo.\n{A}\n", "I look.\n\nSo.", [CALL, CALL]),
        ('<tool>\n{\n  "name": "a",\n  "arguments": {\n    "x": 1\n  }\n}\n</tool>', "", [CALL]),
        ('<tool>{"name": "a"}</tool>', "", [TaggedCall("a", {})]),
        ('<tool>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool>', "", [CALL]),
        ('<tool>{"name": "a", "arguments": {"x": "</tool> } <tool>{"}}</tool> b', "b", [TaggedCall("a", {"x": "</tool> } <tool>{"})]),
        ('<tool>{"name": "a", "arguments": {"x": "\\" \\\\"}}</tool>', "", [TaggedCall("a", {"x": '" \\'})]),
        ("1 < 2 <to <tool", "1 < 2 <to <tool", []),
    ],
    ids=["none", "one", "two", "spread", "no arguments", "text", "tags in strings", "escapes", "half tags"],
)  # fmt: skip
def test_calls_are_found_in_order_and_the_text_around_them_is_shown(
    reply: str, shown: str, calls: list[TaggedCall]
) -> None:
    assert read(reply) == (shown, calls)


@pytest.mark.parametrize(
    "reply",
    [
        '<tool>{"name": "a", "arguments": {"x": 1}}',
        '<tool>{"name": "a", "arguments": {"x": 1}',
        '<tool>{"name": "a", "arguments": {"x": 1',
        '<tool>{"name": "a", "arguments": {"x": 1}</tool>',
        '<tool>{"name": "a", "arguments": {"x": 1}}</to',
    ],
)
def test_the_last_block_may_lack_its_end(reply: str) -> None:
    calls = read(reply)[1]
    if reply.endswith("</to"):
        assert [one.name for one in calls] == ["a"]
    else:
        assert calls == [CALL]


def test_text_after_a_block_without_end_tag_is_shown() -> None:
    assert read('<tool>{"name": "a", "arguments": {"x": 1}} That is it.') == ("That is it.", [CALL])


def test_a_block_before_the_last_must_be_whole() -> None:
    shown, calls = read('<tool>{"name": "b", "arguments": {}} ' + A)
    assert shown == ""
    assert calls == [TaggedCall("b", None, "Error: the <tool> block has no end tag"), CALL]
    assert read('<tool>{"name": "b", "arguments": {</tool> ' + A)[1] == [
        TaggedCall("b", None, "Error: arguments are not valid JSON at character 29"),
        CALL,
    ]


def test_a_block_of_a_reply_that_was_cut_is_not_completed() -> None:
    """What is missing could have changed what the call does."""
    [found] = read('<tool>{"name": "delete", "arguments": {"path": "/a"', cut=True)[1]
    assert (found.name, found.arguments) == ("delete", None)
    assert found.problem is not None


@pytest.mark.parametrize(
    "reply",
    [
        f"```\n{A}\n```\nok",
        f"~~~xml\n{A}\n~~~",
        f"  ```` md\n```\n{A}\n````",
        f"```\n{A}",
        f"Write `{A}` like that.",
    ],
    ids=["backticks", "tildes", "longer fence", "open fence", "inline"],
)
def test_a_block_in_code_is_text(reply: str) -> None:
    assert read(reply) == (reply, [])


def test_a_block_after_code_counts() -> None:
    assert read(f"```\ncode\n```\n{A}") == ("```\ncode\n```", [CALL])
    assert read(f"a ``` b\n{A}")[1] == [CALL]


@pytest.mark.parametrize(
    ("block", "name", "problem"),
    [
        (
            '{"name": "a", "arguments": {}, "id": 3}',
            "a",
            "Error: a <tool> block has name and arguments only, not id",
        ),
        ('{"name": "a", "arguments": [1]}', "a", "Error: arguments must be an object"),
        ('{"name": "a", "arguments": "{"}', "a", "Error: arguments are not valid JSON at character 2"),
        ('{"name": 3, "arguments": {}}', "tool", "Error: a <tool> block needs a name"),
        ('{"arguments": {}}', "tool", "Error: a <tool> block needs a name"),
        ('{"name": "a", "arguments": {,}}', "a", "Error: arguments are not valid JSON at character 29"),
        (
            '{"name": "a", "arguments": {"x": "un\nfinished}}',
            "a",
            "Error: arguments are not valid JSON at character 37",
        ),
        ("[1]", "tool", "Error: arguments must be an object"),
        ("calculator(2)", "tool", "Error: arguments are not valid JSON at character 1"),
        ('{"name": "a"} {"name": "b"}', "a", "Error: arguments are not valid JSON at character 16"),
    ],
)
def test_a_broken_block_is_told_to_the_model_and_never_runs(block: str, name: str, problem: str) -> None:
    shown, calls = read(f"x <tool>{block}</tool> y")
    assert shown == "x\n\ny"
    assert calls == [TaggedCall(name, None, problem)]


def test_a_string_without_end_does_not_swallow_the_next_call() -> None:
    shown, calls = read(f'<tool>{{"name": "b}}</tool> and {A}')
    assert shown == "and"
    assert [one.arguments for one in calls] == [None, {"x": 1}]


def test_a_tag_without_a_block_is_text() -> None:
    assert read("Write <tool> first.") == ("Write <tool> first.", [])
    assert read(f"Write <tool> first: {A}") == ("Write <tool> first:", [CALL])


PARTS = st.sampled_from(
    [
        A,
        "<tool>",
        "</tool>",
        "```\n",
        "`",
        "text ",
        "\n",
        '{"name": "b"}',
        '"',
        "\\",
        "{",
        "}",
        "<",
        "to",
        "  ",
    ]
)


@examples(300)
@given(st.lists(PARTS, max_size=12), st.data())
def test_any_split_of_the_text_gives_the_same_calls(parts: list[str], data: st.DataObject) -> None:
    reply = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(reply)), max_size=8)))
    pieces = [reply[start:end] for start, end in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
    assert read(*pieces) == read(reply) == read(*reply)


@given(st.dictionaries(st.text(max_size=5), st.text(), max_size=3), st.text(alphabet="ab <>/\n"))
def test_any_arguments_arrive_unchanged(arguments: dict[str, str], around: str) -> None:
    block = f"<tool>{json.dumps({'name': 'a', 'arguments': arguments}, ensure_ascii=False)}</tool>"
    assert TaggedCall("a", arguments) in read(around + "\n" + block + around)[1]


def test_text_is_shown_as_it_arrives_and_no_part_of_a_tag_is() -> None:
    tags = ToolTags()
    assert [tags.feed(piece) for piece in ("Let ", "me <", "too", 'l>{"name"', ': "a"}</to', "ol>", " then", " <b>")] == [
        "Let", " me", "", "", "", "", "\n\nthen", " <b>",
    ]  # fmt: skip
