from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_server.config.formats.jsonc import ConfigFileError, parse_object

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a/*,"\\ }]\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(alphabet='a/*,"\\', max_size=4), values, max_size=4))
def test_plain_json_is_parsed_as_json(document: dict[str, object]) -> None:
    assert parse_object(json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, // one\n "b": [1, 2, /* two */],}', {"a": 1, "b": [1, 2]}),
        ('{"u": "http://x/*y*/", "c": ",}"}', {"u": "http://x/*y*/", "c": ",}"}),
        ('{"quote": "\\"// no comment"}', {"quote": '"// no comment'}),
        ("\ufeff{}", {}),
        ("  \n", {}),
        ("// nothing", {}),
        ("{} /* open", {}),
    ],
)
def test_comments_and_trailing_commas(text: str, value: object) -> None:
    assert parse_object(text.encode()) == value


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'{\n"a" 1}', 2),
        (b'{\n/* two\nlines */ "a": x}', 3),
        (b'{\n"a": 1\n', 2),
        (b"{\n\xff}", 2),
        (b"[]", None),
        (b'{"a":' * 100_000, None),
    ],
)
def test_an_error_has_its_line(data: bytes, line: int | None) -> None:
    with pytest.raises(ConfigFileError) as caught:
        parse_object(data)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text", ['"' * 200_001, "/*" * 200_000, "," * 400_000, '{"a' + "\\" * 300_000, "// " * 200_000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    started = time.thread_time()
    with contextlib.suppress(ConfigFileError):
        parse_object(text.encode())
    assert time.thread_time() - started < 2
