"""Tests of JSON-RPC envelopes: valid and invalid messages, and unchanged bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.jsonrpc import Malformed, Notification, Request, Response, parse

# Random spellings of one message -----------------------------------------------------------------------------
BLANKS = st.text(" \t\r\n", max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\\\"é{}[],:", max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEYS = st.text(
    st.characters(exclude_characters='"\\', min_codepoint=0x20, exclude_categories=["Cs"]), max_size=5
)


@st.composite
def json_text(draw: st.DrawFn, value: Any) -> str:
    """JSON texts of a value, with any escapes and white space."""
    before, after = draw(BLANKS), draw(BLANKS)
    if isinstance(value, dict):
        members = [f"{draw(json_text(key))}:{draw(json_text(inner))}" for key, inner in value.items()]
        text = "{" + ",".join(members) + ("}" if members else draw(BLANKS) + "}")
    elif isinstance(value, list):
        text = "[" + ",".join(draw(json_text(inner)) for inner in value) + "]"
    else:
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return before + text + after


@st.composite
def messages(draw: st.DrawFn, *, with_params: bool = True) -> tuple[bytes, dict[str, bytes]]:
    """A request in a random spelling, and its top-level members as they are written."""
    names = ["jsonrpc", "id", "method", *(["params"] if with_params else [])]
    extras = draw(st.lists(KEYS.filter(lambda key: key not in {*names, "params"}), max_size=3, unique=True))
    texts: dict[str, bytes] = {}
    for name in draw(st.permutations([*names, *extras])):
        value: Any = {
            "jsonrpc": "2.0",
            "id": draw(st.integers() | st.text("abc é", max_size=5)),
            "method": "tools/call",
            "params": {**draw(st.dictionaries(KEYS, VALUES, max_size=3))},
        }.get(name)
        if name == "jsonrpc":
            texts[name] = b'"2.0"'
        else:
            texts[name] = draw(json_text(draw(VALUES) if name in extras else value)).strip(" \t\r\n").encode()
    body = ",".join(
        f'{draw(BLANKS)}"{key}"{draw(BLANKS)}:{draw(BLANKS)}{text.decode()}{draw(BLANKS)}'
        for key, text in texts.items()
    )
    return f"{draw(BLANKS)}{{{body}}}{draw(BLANKS)}".encode(), texts


# Shape -------------------------------------------------------------------------------------------------------


def test_a_request_keeps_the_bytes_that_came() -> None:
    body = b' {"params" : {"b":1, "a":[1e400]} ,"jsonrpc":"2.0","method":"tools\\/call","id": "\\u0061"}\n'
    assert parse(body) == Request(b'"\\u0061"', "tools/call", b'{"b":1, "a":[1e400]}', body)


def test_a_method_without_id_is_a_notification() -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"tools/call","params":{}}') == Notification("tools/call", b"{}")


@pytest.mark.parametrize("member", ["result", "error"])
def test_an_id_with_result_or_error_is_a_response(member: str) -> None:
    body = b'{"jsonrpc":"2.0","id":"x","%s":{}}' % member.encode()
    assert parse(body) == Response(b'"x"', body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b"nope",
        b'{"jsonrpc":"2.0",}',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"x"}x',
        b'{"jsonrpc":"2.0","id":1,"method":"x"}{}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","id":01,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":1,"method":"x\ny"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"x"}',
        b"[1,]",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_invalid_json_is_a_parse_error_without_id(body: bytes) -> None:
    problem = parse(body)
    assert isinstance(problem, Malformed)
    assert (problem.code, problem.id) == (jsonrpc.PARSE_ERROR, None)
    assert problem.message.endswith("; send one JSON-RPC message as UTF-8 JSON"), "says what to do next"


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}',
        b'{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}',
        b'{"jsonrpc":"2.0","id":12,"id":1,"method":"a"}',
        b'{"jsonrpc":"2.0" , "id":1,"method":"a","params":{},"params":{}}',
        b'{"x":1,"jsonrpc":"2.0","id":1,"method":"a","x":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","m\\u0065thod":"b"}',
        b'{"jsonrpc":"2.0","id":1,"m\\u0065thod":"b"}',
        '{"jsonrpc":"2.0","id":1,"method":"a","é":1,"é":1}'.encode(),
    ],
)
def test_a_member_named_twice_or_with_escapes_is_refused(body: bytes) -> None:
    """Two parsers could read two different messages."""
    problem = parse(body)
    assert isinstance(problem, Malformed)
    assert problem.code == jsonrpc.INVALID_REQUEST


@pytest.mark.parametrize(
    ("body", "echoed"),
    [
        (b"[]", None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', None),
        (
            b'[{"jsonrpc":"2.0","id":1,"method":"x"}'
            + b',{"jsonrpc":"2.0","id":1,"method":"x"}' * 9999
            + b"]",
            None,
        ),
        (b'"text"', None),
        (b"17", None),
        (b"null", None),
        (b"true", None),
        (b"{}", None),
        (b'{"jsonrpc":"1.0","id":1,"method":"x"}', b"1"),
        (b'{"jsonrpc":2.0,"id":1,"method":"x"}', b"1"),
        (b'{"id":"k","method":"x"}', b'"k"'),
        (b'{"jsonrpc":"2.0","id":1}', b"1"),
        (b'{"jsonrpc":"2.0","result":{}}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":["x"]}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[]}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":null}', b"1"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":"p"}', b"1"),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":1e3,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 255 + b'","method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"x"}', None),
    ],
)
def test_a_wrong_shape_is_an_invalid_request_with_the_id_if_readable(
    body: bytes, echoed: bytes | None
) -> None:
    problem = parse(body)
    assert isinstance(problem, Malformed)
    assert (problem.code, problem.id) == (jsonrpc.INVALID_REQUEST, echoed)


@pytest.mark.parametrize(
    "identity",
    [
        b"0",
        b"-7",
        b"-0",
        b"9" * 256,
        b'""',
        b'"1"',
        b'"\\u00e9\\n"',
        '"é"'.encode(),
        b'"' + b"x" * 254 + b'"',
    ],
)
def test_ids_are_kept_and_echoed_byte_for_byte(identity: bytes) -> None:
    """Also integers beyond 64 bits and escapes."""
    message = parse(b'{"jsonrpc":"2.0","id":%s,"method":"x"}' % identity)
    assert isinstance(message, Request)
    assert message.id == identity
    assert b'"id":%s,' % identity in jsonrpc.result(message.id, {})
    assert b'"id":%s,' % identity in jsonrpc.error(message.id, -1, "no")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'"a"', b'"\\u0061"', True),
        (b"1", b'"1"', False),
        (b"1", b"01"[1:], True),
        (b"18446744073709551617", b"18446744073709551617", True),
        (b"18446744073709551617", b"18446744073709551616", False),
    ],
)
def test_ids_are_compared_by_value_and_type(one: bytes, other: bytes, same: bool) -> None:
    assert (jsonrpc.id_key(one) == jsonrpc.id_key(other)) is same


@given(messages())
def test_every_spelling_of_a_request_parses_to_the_same(spelling: tuple[bytes, dict[str, bytes]]) -> None:
    body, texts = spelling
    assume(len(texts["id"]) <= jsonrpc.MAX_ID_BYTES)
    message = parse(body)
    assert message == Request(texts["id"], "tools/call", texts["params"], body)


@given(messages(), st.data())
def test_a_repeated_member_is_found_in_every_spelling(
    spelling: tuple[bytes, dict[str, bytes]], data: st.DataObject
) -> None:
    body, texts = spelling
    key = data.draw(st.sampled_from(list(texts)))
    again = data.draw(st.sampled_from([texts[key], b"1", b'"x"', b"{}"]))
    at_end = data.draw(st.booleans())
    member = b'"%s":%s' % (key.encode(), again)
    opening, closing = body.index(b"{") + 1, body.rindex(b"}")
    twice = body[:closing] + b"," + member + body[closing:] if at_end else (
        body[:opening] + member + b"," + body[opening:]
    )  # fmt: skip
    problem = parse(twice)
    assert isinstance(problem, Malformed)
    assert problem.code == jsonrpc.INVALID_REQUEST


# Other parameters --------------------------------------------------------------------------------------------


@given(messages())
@example((b'{"x":"\\"params\\":{}","params":{},"jsonrpc":"2.0"}', {"params": b"{}"}))
def test_replaced_parameters_leave_every_other_byte_unchanged(
    spelling: tuple[bytes, dict[str, bytes]],
) -> None:
    body, texts = spelling
    new = b'{ "new" : [1] }'
    changed = jsonrpc.with_params(body, texts["params"], new)
    # the one replacement that is possible anywhere in the body and gives this very result
    places = [at for at in range(len(body)) if body.startswith(texts["params"], at)]
    assert changed in {body[:at] + new + body[at + len(texts["params"]) :] for at in places}
    members = json.loads(changed)
    assert members["params"] == {"new": [1]}
    assert {**members, "params": 0} == {**json.loads(body), "params": 0}


@given(messages(with_params=False))
def test_parameters_are_added_where_there_were_none(spelling: tuple[bytes, dict[str, bytes]]) -> None:
    body, _ = spelling
    changed = jsonrpc.with_params(body, b"", b'{"n":1}')
    assert changed.replace(b'"params":{"n":1},', b"", 1) == body
    assert json.loads(changed) == {**json.loads(body), "params": {"n": 1}}


def test_parameters_of_a_body_that_has_none_cannot_be_replaced() -> None:
    with pytest.raises(ValueError, match="not a parsed message"):
        jsonrpc.with_params(b'{"jsonrpc":"2.0"}', b"{}", b"{}")


# Reading and writing members -------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [b"[]", b"1", b"", b"{", b'"x"', b"null", b"[" * 100_000])
def test_only_an_object_has_members(raw: bytes) -> None:
    assert jsonrpc.members_of(raw) == {}


def test_members_keep_their_bytes() -> None:
    members = jsonrpc.members_of(b'{ "a" : 1.50 , "b":{"c" :1e999}}')
    assert {key: jsonrpc.bytes_of(value) for key, value in members.items()} == {
        "a": b"1.50",
        "b": b'{"c" :1e999}',
    }


@pytest.mark.parametrize(
    ("raw", "text"), [(b'"a\\n"', "a\n"), (b"1", None), (b"null", None), (b"{}", None), (b"", None)]
)
def test_only_a_string_has_a_text(raw: bytes, text: str | None) -> None:
    assert jsonrpc.text_of(raw) == text


def test_a_request_copies_raw_parameters_byte_for_byte() -> None:
    params = {"name": "x", "arguments": msgspec.Raw(b'{ "big":123456789012345678901234567890 }')}
    assert jsonrpc.request(b"7", "tools/call", params) == (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call",'
        b'"params":{"name":"x","arguments":{ "big":123456789012345678901234567890 }}}'
    )


def test_a_notification_without_parameters_has_no_such_member() -> None:
    assert json.loads(jsonrpc.notification("n")) == {"jsonrpc": "2.0", "method": "n"}
    assert json.loads(jsonrpc.notification("n", {})) == {"jsonrpc": "2.0", "method": "n", "params": {}}


def test_lone_surrogates_are_written_as_replacement_characters() -> None:
    """JSON in UTF-8 cannot contain them, and the answer must still be written."""
    value = {"a\udcff": ["b\ud800", ("\udfff",), 1, None, msgspec.Raw(b"[2]")]}
    assert json.loads(jsonrpc.dumps(value)) == {"a\ufffd": ["b\ufffd", ["\ufffd"], 1, None, [2]]}
    assert bytes(jsonrpc.raw("\udcff")) == '"\ufffd"'.encode()


def test_an_error_without_readable_id_has_id_null() -> None:
    """The member `data` is omitted without data."""
    assert jsonrpc.error(None, -32700, "no") == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'
    )
    assert json.loads(jsonrpc.error(b"1", -1, "no", {"a": 1}))["error"]["data"] == {"a": 1}
