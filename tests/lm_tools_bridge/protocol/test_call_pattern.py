"""Tests of call patterns: a call that matches gets the same values as if it were parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.call_pattern import (
    LONGEST,
    MAX_BRACKETS,
    VOLATILE_MEMBERS,
    Pattern,
    derive_pattern,
    is_plain_id,
)
from lm_tools_bridge.protocol.jsonrpc import Request
from manager.routing.admission import check_json

PYTHON = b'{"method":"tools/call","params":{"name":"t","arguments":%b},"jsonrpc":"2.0","id":%b}'
TYPESCRIPT = b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{"name":"t","arguments":%b}}'
META_LAST = (
    b'{"jsonrpc":"2.0","id":%b,"method":"tools/call",'
    b'"params":{"name":"t","arguments":%b,"_meta":{"arguments":{},"id":1}}}'
)
META_FIRST = (
    b'{"method":"tools/call","params":{"_meta":{"io/x":[1]},"name":"t","arguments":%b},'
    b'"more":"\\"id\\":1","jsonrpc":"2.0","id":%b}'
)
SPACED = (
    b'{ "jsonrpc": "2.0",\r\n"id":%b, "method": "tools/call", "params": {"arguments":%b , "name": "t"} }\n'
)
MARKED_BEHIND = (
    b'{"method":"tools/call","params":{"name":"t","arguments":%b,'
    b'"_meta":{"claudecode/toolUseId":"toolu_1","progressToken":7}},"jsonrpc":"2.0","id":%b}'
)
MARKED_BEFORE = (
    b'{"jsonrpc":"2.0","id":%b,"method":"tools/call",'
    b'"params":{"_meta":{"progressToken":"7","x":1},"name":"t","arguments":%b}}'
)
PYTHON_DEFAULT = (
    b'{"jsonrpc": "2.0", "id": %b, "method": "tools/call", "params": {"name": "t", "arguments": %b}}'
)
MARKED_WITH_BLANKS = (
    b'{"method": "tools/call", "params": {"name": "t", "arguments": %b,'
    b' "_meta": {"progressToken": 7, "x": "1"}}, "jsonrpc": "2.0", "id": %b}'
)
FRAMES = {
    "Python, with blanks": (PYTHON_DEFAULT, True),
    "marked, with blanks": (MARKED_WITH_BLANKS, False),
    "marked behind": (MARKED_BEHIND, False),
    "marked before": (MARKED_BEFORE, True),
    "Python": (PYTHON, False),
    "TypeScript": (TYPESCRIPT, True),
    "meta last": (META_LAST, True),
    "meta first": (META_FIRST, False),
    "spaced": (SPACED, True),
}
EACH = pytest.mark.parametrize("frame", FRAMES)


def written(frame: str, identity: bytes, arguments: bytes) -> bytes:
    """A call as one client serialises it."""
    text, is_id_first = FRAMES[frame]
    return text % ((identity, arguments) if is_id_first else (arguments, identity))


def pattern_of(frame: str) -> Pattern:
    found = derive_pattern(written(frame, b"7", b'{"a":1}'))
    assert found is not None
    return found[0]


def read(body: bytes) -> tuple[Request, dict[str, Any]]:
    """The parsed call without its id, arguments and marks."""
    assert check_json(body) is None
    message = jsonrpc.parse(body)
    assert isinstance(message, Request), message
    whole = json.loads(body)
    del whole["id"], whole["params"]["arguments"]
    if "_meta" in whole["params"]:
        found = {one for one in whole["params"]["_meta"] if b'"%b":' % one.encode() in VOLATILE_MEMBERS}
        whole["params"]["_meta"] = {k: v for k, v in whole["params"]["_meta"].items() if k not in found}
    return message, whole


# text of the frame in the wrong places, as an attacker could send it
DECOYS = [
    *VOLATILE_MEMBERS,
    b'"progressToken":7}',
    b'"id":',
    b'"arguments":',
    b'","params":{',
    b'},"jsonrpc":"2.0","id":',
    b'"name":"t"',
    b"}}",
    b"7",
]
PIECES = st.sampled_from(
    [*DECOYS, b'"', b"\\", b"{", b"}", b"[", b",", b":", b" ", b"\n", b"\xe9", b"\\u0041"]
)
TEXTS = st.lists(PIECES, max_size=8).map(b"".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS.map(lambda text: text.decode("latin-1")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "arguments", "name", '"id":1', "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = (
    VALUES.map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    | VALUES.map(lambda value: json.dumps({"a": value}).encode())
    | TEXTS
    | TEXTS.map(lambda text: b"{%b}" % text)
)
IDS = st.integers().map(b"%d".__mod__) | TEXTS.map(lambda text: b'"%b"' % text) | TEXTS


@EACH
@given(identity=IDS, arguments=ARGUMENTS)
@example(b'"x"', b'{"id":2,"arguments":{"id":3}}')
@example(b"1", b'{"a":1},"jsonrpc":"2.0","id":2,"x":{}')
@example(b'1,"method":"tools/call","params":{"name":"u","arguments":{}},"x":2', b"{}")
@example(b"1", b'{}},"params":{"name":"u","arguments":{}')
@example(b"1", b' {"a":1} ')
@example(b"1", b"{}{}")
@example(b"1", b'{"a":NaN}')
def test_a_matching_call_parses_to_the_same_values(frame: str, identity: bytes, arguments: bytes) -> None:
    body = written(frame, identity, arguments)
    pattern = pattern_of(frame)
    found = pattern.match(body)
    if found is None:
        return
    message, rest = read(body)
    assert found[:2] == (message.id, jsonrpc.bytes_of(jsonrpc.members_of(message.params)["arguments"]))
    assert rest == read(written(frame, b"7", b'{"a":1}'))[1]
    assert pattern.fill(found) == body


@given(
    frame=st.sampled_from(sorted(FRAMES)),
    identity=st.integers(0, 10**15 - 1).map(b"%d".__mod__)
    | st.from_regex(rb'"[a-z0-9 -]{0,64}"', fullmatch=True),
    arguments=st.dictionaries(st.sampled_from(["id", "arguments", "a"]), VALUES, max_size=4).map(
        lambda value: json.dumps(value).encode()
    ),
)
def test_every_ordinary_call_matches(frame: str, identity: bytes, arguments: bytes) -> None:
    assume(b"\\u" not in arguments)
    found = pattern_of(frame).match(written(frame, identity, arguments))
    assert found is not None
    assert found[:2] == (identity, arguments)


@given(
    frame=st.sampled_from(sorted(FRAMES)),
    cut=st.integers(0, 400),
    inserted=st.binary(max_size=3),
    dropped=st.integers(0, 3),
)
def test_a_changed_body_matches_only_if_it_parses_the_same(
    frame: str, cut: int, inserted: bytes, dropped: int
) -> None:
    """It must be valid, and equal except for id and arguments."""
    whole = written(frame, b"7", b'{"a":"b"}')
    body = whole[:cut] + inserted + whole[cut + dropped :]
    if pattern_of(frame).match(body) is not None:
        assert read(body)[1] == read(whole)[1]


VALUES_OF_MARKS = st.sampled_from([b"0", b"1", b"77", b'"toolu_2"', b'""', b'"progressToken"', b"9" * 15])


@given(one=VALUES_OF_MARKS, other=VALUES_OF_MARKS, arguments=ARGUMENTS)
def test_calls_with_other_marks_match(one: bytes, other: bytes, arguments: bytes) -> None:
    body = written("marked behind", b"8", arguments)
    body = other.join(one.join(body.rsplit(b'"toolu_1"', 1)).rsplit(b"7", 1))
    found = pattern_of("marked behind").match(body)
    if found is not None:
        assert found == (b"8", arguments, one, other)
        assert read(body)[1] == read(written("marked behind", b"7", b"{}"))[1]
        assert pattern_of("marked behind").fill(found) == body
    else:
        assert pattern_of("TypeScript").match(written("TypeScript", b"8", arguments)) is None


@pytest.mark.parametrize(
    "mark", [b"1.5", b"-1", b'"\\u0041"', b'"\xc3\xa9"', b"null", b"{}", b" 1", b"01", b'"a"b"', b"1,2"]
)
def test_an_unusual_mark_does_not_match(mark: bytes) -> None:
    body = written("marked behind", b"8", b"{}")
    assert pattern_of("marked behind").match(body.replace(b'"toolu_1"', mark)) is None


@pytest.mark.parametrize("mark", [b"1.5", b"-1", b"null", b"{}", b"  1", b'{"progressToken":1}'])
def test_an_unusual_mark_in_the_first_call_is_part_of_the_pattern(mark: bytes) -> None:
    body = written("marked before", b"8", b"{}")
    odd = body.replace(b'"7"', mark)
    found = derive_pattern(odd)
    assert found is not None
    assert found[0].match(odd) == (b"8", b"{}")
    assert found[0].match(body) is None


@pytest.mark.parametrize(
    "identity",
    [
        *(b"01", b"-1", b"1.0", b"1e3", b"null", b"true", b"9" * 16, b"", b" 1", b"1\n", "٣".encode()),
        *(b'"\\u0041"', b'"\xc3\xa9"', b'"a"b"', b'"%b"' % (b"x" * 65)),
    ],
)
def test_an_unusual_id_does_not_match(identity: bytes) -> None:
    assert not is_plain_id(identity)
    assert pattern_of("TypeScript").match(written("TypeScript", identity, b"{}")) is None


@pytest.mark.parametrize(
    "arguments",
    {
        "not ASCII": '{"a":"é"}'.encode(),
        "not UTF-8": b'{"a":"\xff"}',
        "escapes": b'{"a":"\\u0041"}',
        "a lone surrogate": b'{"a":"\\ud800"}',
        "deep": b'{"a":' + b"[" * MAX_BRACKETS + b"]" * MAX_BRACKETS + b"}",
        "very deep": b'{"a":' + b"[" * 8000 + b"]" * 8000 + b"}",
        "long": b'{"a":"' + b"x" * LONGEST + b'"}',
        "many values": b'{"a":[' + b"1," * 200_000 + b"1]}",
        "no object": b"[1]",
        "nothing": b"",
        "two": b"{},{}",
        "a blank behind": b'{"a":1} ',
        "a blank before": b' {"a":1}',
        "a line end behind": b'{"a":[1]}\r\n',
        "a control character": b'{"a":"\n"}',
    }.items(),
    ids=lambda one: one[0],
)
@EACH
def test_unusual_arguments_do_not_match(frame: str, arguments: tuple[str, bytes]) -> None:
    """The parser of all messages then decides whether to refuse them."""
    assert pattern_of(frame).match(written(frame, b"7", arguments[1])) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t","arguments":{}}}',
        TYPESCRIPT % (b"-1", b"{}"),
        TYPESCRIPT % (b"1", b"[]"),
        TYPESCRIPT % (b"1", b'{"a":{"b":"\xc3\xa9"}}'),
        b'{"id":1,"x":{"id":1},"jsonrpc":"2.0","method":"m","params":{"arguments":{}}}',
        b'{"id":1,"jsonrpc":"2.0","method":"m","params":{"arguments":{},"x":{"arguments":{}}}}',
        b'{"\\u0069d":1,"jsonrpc":"2.0","method":"m","params":{"arguments":{}}}',
        b'{"id" :1,"jsonrpc":"2.0","method":"m","params":{"arguments":{}}}',
        b'{"id":1,"jsonrpc":"2.0","method":"m","params":{"x":{"id":2},"argument\\u0073":{}},"x":{"arguments":{}}}',
        TYPESCRIPT % (b"1", b'{"a":"' + b"x" * LONGEST + b'"}'),
        b"[]",
        b"",
    ],
)
def test_a_call_with_ambiguous_places_of_its_values_has_no_pattern(body: bytes) -> None:
    assert derive_pattern(body) is None


def test_a_call_of_another_tool_does_not_match() -> None:
    pattern = pattern_of("TypeScript")
    assert pattern.match(written("TypeScript", b"1", b"{}").replace(b'"t"', b'"u"')) is None
    assert pattern.match(written("Python", b"1", b"{}")) is None
