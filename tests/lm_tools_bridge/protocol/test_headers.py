"""Tests of the header value codec, also against the official one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared import inbound as official

from lm_tools_bridge.protocol import headers

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SENTINEL_LIKE = st.tuples(
    st.sampled_from(["=?base64?", "=?BASE64?", "=?base64", "?base64?", ""]),
    st.text("ABCDabcd0189+/=?é \t", max_size=12),
    st.sampled_from(["?=", "?", "=", ""]),
).map("".join)


@pytest.mark.parametrize("value", ["", "a", "two words", "~!@#$%^&*()", "=?BASE64?YQ==?=", "=?base64?YQ=="])
def test_plain_ascii_is_sent_unchanged(value: str) -> None:
    assert headers.encode_value(value) == value
    assert headers.decode_value(value) == value


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("é", "=?base64?w6k=?="),
        ("日本", "=?base64?5pel5pys?="),
        (" lead", "=?base64?IGxlYWQ=?="),
        ("trail ", "=?base64?dHJhaWwg?="),
        ("\ttab", "=?base64?CXRhYg==?="),
        ("a\nb", "=?base64?YQpi?="),
        ("a\rb", "=?base64?YQ1i?="),
        ("\0", "=?base64?AA==?="),
        ("\x7f", "=?base64?fw==?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
    ],
)
def test_other_text_is_sent_as_base64_of_its_utf8(value: str, encoded: str) -> None:
    assert headers.encode_value(value) == encoded
    assert headers.decode_value(encoded) == value


@pytest.mark.parametrize(
    "value",
    ["=?base64?YQ==", "base64?YQ==?=", "=?Base64?YQ==?=", "=?base64?=", "=?base64?", "=?utf-8?YQ==?="],
)
def test_text_that_only_resembles_the_sentinel_is_literal(value: str) -> None:
    assert headers.decode_value(value) == value


@pytest.mark.parametrize(
    "payload",
    ["YQ", "YQ=", "YR==", "Y Q=", "Y-Q_", "é", "/w==", "7aCA", "YQ==YQ=="],
    ids=["no padding", "half padding", "trailing bits", "blank", "url alphabet", "not ASCII", "not UTF-8",
         "surrogate", "two in one"],
)  # fmt: skip
def test_invalid_base64_decodes_to_nothing(payload: str) -> None:
    """A corrupt header must never match a body by accident."""
    assert headers.decode_value(f"=?base64?{payload}?=") is None


def test_outer_blanks_of_a_field_are_stripped() -> None:
    assert headers.decode_value(" \ttools \t") == "tools"
    assert headers.decode_value(" =?base64?YQ==?= ") == "a"


@given(TEXTS | SENTINEL_LIKE)
@example("=?base64?=")
@example("\x1cedge\x85")
def test_an_encoded_value_is_decoded_to_the_same_text(value: str) -> None:
    encoded = headers.encode_value(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert encoded == encoded.strip()
    assert headers.decode_value(encoded) == value
    assert official.decode_header_value(encoded) == value
    assert headers.decode_value(official.encode_header_value(value)) == value


@given(SENTINEL_LIKE.filter(str.isascii))  # the official decoder raises on other characters
def test_decoding_equals_the_official_codec(value: str) -> None:
    assert headers.decode_value(value.strip(" \t")) == official.decode_header_value(value.strip(" \t"))


def test_a_lone_surrogate_is_encoded_and_never_matches() -> None:
    assert headers.decode_value(headers.encode_value("\ud800")) is None


@pytest.mark.parametrize(
    ("name", "crosses"),
    [
        ("mcp-protocol-version", True),
        ("mcp-method", True),
        ("mcp-name", True),
        ("mcp-param-path", True),
        ("traceparent", True),
        ("x-mcp-tool-mode", True),
        ("authorization", False),
        ("cookie", False),
        ("x-api-key", False),
        ("mcp-session-id", False),
        ("host", False),
        ("connection", False),
        ("transfer-encoding", False),
        ("x-workspace-cwd", False),
        (headers.SECRET.lower(), False),
    ],
)
def test_only_listed_headers_are_forwarded_to_the_workspace_server(name: str, crosses: bool) -> None:
    assert headers.is_forwarded(name) is crosses
