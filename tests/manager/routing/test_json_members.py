"""Tests of the members of large objects, compared with a JSON decoder."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import jsonrpc
from manager.routing.json_members import MIN_STRING, members_between

LONG = b"x" * 3 * MIN_STRING


def both(text: bytes) -> tuple[dict[str, bytes], dict[str, bytes]]:
    found = members_between(b"--" + text + b"-", 2, len(text) + 2)
    wanted = jsonrpc.members_of(text)
    return {name: bytes(raw) for name, raw in found.items()}, {n: bytes(raw) for n, raw in wanted.items()}


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"t":"%b","z":{"b":[2]}}',
        b'{"t":"%b"}',
        b'{ "a" : [1, 2 ] , "t" : [{"u" : "%b" , "v" : "" }] , "z" : null }',
        b'{"a":"y","t":"\\"%b\\\\","z":"w"}',
        b'{"a":1,"%b":2,"z":3}',
        b'{"t":"%b","t":1}',
    ],
)
def test_the_members_equal_those_of_a_json_decoder(text: bytes) -> None:
    found, wanted = both(text % LONG)
    assert found == wanted
    assert list(found) == list(wanted) != []


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"t":"%b","z":}',
        b'{"a":"y"%b"z":1}',
        b'{"a":"y",%b"z":1}',
        b'{"a":%b,"z":1}',
        b'{"t":"%b"',
        b'{"t":"%b"}}',
        b'["%b"]',
        b'"%b"',
        b"%b",
    ],
)
def test_text_that_no_decoder_accepts_is_refused(text: bytes) -> None:
    assert both(text % LONG) == ({}, {})


def test_numbers_between_two_strings_are_not_read_as_a_string() -> None:
    text = b'{"a":"y","n":[%b],"z":"w"}' % b",".join([b"1"] * 2 * MIN_STRING)
    found, wanted = both(text)
    assert found == wanted != {}


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), _VALUES, max_size=4), _VALUES, st.booleans())
def test_a_large_member_is_found_among_any_other_members(
    before: dict[str, object], behind: object, spaced: bool
) -> None:
    value = {**before, "long": [LONG.decode(), behind], "last": behind}
    text = json.dumps(value, indent=1 if spaced else None).encode()
    found, wanted = both(text)
    assert found == wanted != {}
