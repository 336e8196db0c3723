"""Tests of the classification of messages and the order of checks, also against the official SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from multidict import CIMultiDict

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.inbound import Inbound, Rejection, classify, modern_meta
from lm_tools_bridge.protocol.jsonrpc import Notification, Request, Response, bytes_of, raw
from lm_tools_bridge.protocol.names import LEGACY_REVISIONS, Era
from support.examples import examples

MODERN = "2026-07-28"
META = {names.META_VERSION: MODERN, names.META_CAPABILITIES: {}}
ABSENT = object()


def body(method: str = "tools/list", identity: Any = 1, meta: Any = ABSENT, **params: Any) -> dict[str, Any]:
    if meta is not ABSENT:
        params["_meta"] = meta
    message = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    return {key: value for key, value in message.items() if value is not ABSENT}


def ask(message: object, **sent: str) -> Inbound | Rejection:
    """Classify a body; keywords are header names with underscores."""
    spelt = {name.replace("_", "-"): value for name, value in sent.items()}
    content = message if isinstance(message, bytes) else json.dumps(message).encode()
    return classify(CIMultiDict(spelt), content)


def version(text: str, method: str | None = "tools/list") -> dict[str, str]:
    return {"mcp_protocol_version": text, **({} if method is None else {"mcp_method": method})}


def rejected(outcome: Inbound | Rejection) -> tuple[int, int]:
    assert isinstance(outcome, Rejection), outcome
    answer = json.loads(outcome.body())
    assert answer["error"]["code"] == outcome.code
    assert answer["error"]["message"]
    return outcome.status, outcome.code


def accepted(outcome: Inbound | Rejection) -> Inbound:
    assert isinstance(outcome, Inbound), outcome
    return outcome


# The table of edge cases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "sent", "code"),
    [
        pytest.param(body(meta=META), {}, -32020, id="modern body, no version header"),
        pytest.param(body(), version(MODERN), -32602, id="modern header, no _meta"),
        pytest.param(body(meta=META), version("2025-11-25"), -32020, id="legacy header, modern _meta"),
        pytest.param(
            body(meta={**META, names.META_VERSION: "2025-11-25"}), version(MODERN), -32020,
            id="modern header, legacy _meta",
        ),
        pytest.param(
            body(meta={**META, names.META_VERSION: "2027-01-01"}), version("2027-01-01"), -32022,
            id="unknown version in both",
        ),
        pytest.param(body(), version("2027-01-01"), -32602, id="unknown header, no _meta"),
        pytest.param(body(), version("garbage"), -32602, id="garbage header, no _meta"),
        pytest.param(body("initialize"), version(MODERN, None), -32020, id="initialize under modern header"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}}, version(MODERN), -32600, id="response"),
        pytest.param([body(meta=META)], version(MODERN), -32600, id="batch"),
        pytest.param(body(identity=None, meta=META), version(MODERN), -32600, id="id null"),
    ],
)  # fmt: skip
def test_edge_case_is_refused_with_400(message: object, sent: dict[str, str], code: int) -> None:
    assert rejected(ask(message, **sent)) == (400, code)


@pytest.mark.parametrize("asked", [*LEGACY_REVISIONS, MODERN, "1900-01-01"])
def test_initialize_without_header_is_legacy_for_every_version(asked: str) -> None:
    inbound = accepted(ask(body("initialize", protocolVersion=asked)))
    assert (inbound.era, inbound.revision) == (Era.LEGACY, None)


@pytest.mark.parametrize("sent", [{}, *(version(one, None) for one in LEGACY_REVISIONS)])
def test_a_request_without_claim_is_legacy(sent: dict[str, str]) -> None:
    inbound = accepted(ask(body(), **sent))
    assert inbound.era is Era.LEGACY
    assert inbound.revision == sent.get("mcp_protocol_version")


@pytest.mark.parametrize("method", ["ping", "initialize", "no/such/method"])
def test_unknown_methods_are_classified(method: str) -> None:
    """With a valid envelope, an unknown or removed method counts as modern here; a later step answers it."""
    inbound = accepted(ask(body(method, meta=META), **version(MODERN, method)))
    assert inbound.era is Era.MODERN


@pytest.mark.parametrize(
    ("sent", "era"),
    [({}, Era.LEGACY), (version("2025-06-18"), Era.LEGACY), (version(MODERN), Era.MODERN)],
)
def test_the_version_header_decides_about_a_notification(sent: dict[str, str], era: Era) -> None:
    inbound = accepted(ask(body("notifications/cancelled", ABSENT, requestId=1), **sent))
    assert isinstance(inbound.message, Notification)
    assert inbound.era is era
    assert bytes_of(inbound.params["requestId"]) == b"1"


def test_a_legacy_response_is_accepted() -> None:
    inbound = accepted(ask({"jsonrpc": "2.0", "id": 1, "result": {}}, **version("2025-11-25")))
    assert isinstance(inbound.message, Response)


@pytest.mark.parametrize(("content", "code"), [(b"{", -32700), (b"[]", -32600), (b'"x"', -32600)])
def test_json_and_shape_are_checked_first(content: bytes, code: int) -> None:
    outcome = ask(content, **version(MODERN))
    assert rejected(outcome) == (400, code)
    assert isinstance(outcome, Rejection)
    assert json.loads(outcome.body())["id"] is None


def test_unknown_version_on_a_live_session_is_an_invalid_request() -> None:
    """The error does not mention `_meta`, which session clients do not know."""
    sent = {**version("1900-01-01", None), "mcp_session_id": "s"}
    assert rejected(ask(body(), **sent)) == (400, -32600)


# A modern envelope -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "meta",
    [
        {names.META_VERSION: MODERN},
        {**META, names.META_CAPABILITIES: None},
        {**META, names.META_CAPABILITIES: []},
        {**META, names.META_VERSION: 20260728},
        {**META, names.META_VERSION: None},
        {**META, names.META_CLIENT: "me"},
        {names.META_CAPABILITIES: {}},
        {},
        [],
        "meta",
        None,
    ],
)
def test_an_incomplete_meta_is_invalid_params(meta: object) -> None:
    assert rejected(ask(body(meta=meta), **version(MODERN))) == (400, -32602)


def test_client_info_is_not_required() -> None:
    assert accepted(ask(body(meta=META), **version(MODERN))).era is Era.MODERN


@pytest.mark.parametrize("method", [None, "", "Tools/List", "tools/call", "tools/list/"])
def test_the_method_header_repeats_the_method(method: str | None) -> None:
    """Missing, different, or in another case."""
    assert rejected(ask(body(meta=META), **version(MODERN, method))) == (400, -32020)


@pytest.mark.parametrize(
    "sent",
    [
        {"MCP_Protocol_Version": MODERN, "MCP_METHOD": "tools/list"},
        {"mcp_protocol_version": f" {MODERN}\t", "mcp_method": " tools/list "},
    ],
)
def test_header_names_ignore_case_and_values_are_stripped(sent: dict[str, str]) -> None:
    assert accepted(ask(body(meta=META), **sent)).revision == MODERN


@pytest.mark.parametrize(("method", "member"), names.NAMED_PARAM.items())
@pytest.mark.parametrize("value", ["plain", "é ü", "=?base64?YQ==?=", " edge ", ""])
def test_the_name_header_repeats_the_parameter(method: str, member: str, value: str) -> None:
    message = body(method, meta=META, **{member: value})
    sent = version(MODERN, method)
    inbound = accepted(ask(message, **sent, mcp_name=headers.encode_value(value)))
    assert inbound.name == value
    assert rejected(ask(message, **sent, mcp_name="other")) == (400, -32020)
    assert rejected(ask(message, **sent)) == (400, -32020)
    assert rejected(ask(message, **sent, mcp_name="=?base64?YQ?=")) == (400, -32020)


@pytest.mark.parametrize("value", [ABSENT, None, 7, ["x"], {}])
def test_a_named_method_without_a_name_is_invalid_params(value: object) -> None:
    params = {} if value is ABSENT else {"name": value}
    message = body("tools/call", meta=META, **params)
    assert rejected(ask(message, **version(MODERN, "tools/call"), mcp_name="x")) == (400, -32602)


def test_a_name_header_on_another_method_is_ignored() -> None:
    assert accepted(ask(body(meta=META), **version(MODERN), mcp_name="whatever")).name is None


def test_a_header_mismatch_is_reported_before_an_unknown_version() -> None:
    """First headers are compared with the body, then the version is checked."""
    meta = {**META, names.META_VERSION: "2027-01-01"}
    assert rejected(ask(body(meta=meta), **version("2027-01-01", "x"))) == (400, -32020)


def test_an_unknown_version_is_answered_with_the_known_ones() -> None:
    meta = {**META, names.META_VERSION: "2027-01-01"}
    outcome = ask(body(meta=meta), **version("2027-01-01"))
    assert isinstance(outcome, Rejection)
    assert json.loads(outcome.body())["error"]["data"] == {"supported": [MODERN], "requested": "2027-01-01"}


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        (body(identity="k", meta=META), {}),
        (body(identity="k"), version(MODERN)),
        (body(identity="k", meta={**META, names.META_VERSION: "2027-01-01"}), version("2027-01-01")),
        (body("initialize", "k"), version(MODERN)),
        ({"jsonrpc": "2.0", "id": "k", "method": 1}, {}),
    ],
)
def test_every_rejection_echoes_the_id(message: object, sent: dict[str, str]) -> None:
    outcome = ask(message, **sent)
    assert isinstance(outcome, Rejection)
    assert json.loads(outcome.body())["id"] == "k"


def test_params_and_meta_keep_their_bytes() -> None:
    content = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{ "n":1.50 },'
        b'"_meta":{"progressToken": 1e2,"%s":"%s","%s":{}}}}'
        % (names.META_VERSION.encode(), MODERN.encode(), names.META_CAPABILITIES.encode())
    )
    inbound = accepted(ask(content, **version(MODERN, "tools/call"), mcp_name="x"))
    assert isinstance(inbound.message, Request)
    assert bytes_of(inbound.params["arguments"]) == b'{ "n":1.50 }'
    assert bytes_of(inbound.meta["progressToken"]) == b"1e2"


def test_our_own_meta_is_accepted() -> None:
    meta = {
        key: json.loads(bytes_of(value)) for key, value in modern_meta(raw({}), raw({"name": "m"})).items()
    }
    assert accepted(ask(body(meta=meta), **version(MODERN))).era is Era.MODERN
    assert names.META_CLIENT not in modern_meta(raw({}), None)


# Compared with the official SDK -------------------------------------------------------------------------------

VERSIONS = st.sampled_from([MODERN, MODERN, MODERN, "2027-01-01", "2025-11-25", ""])
METHODS = st.sampled_from(["tools/list", "tools/call", "resources/read", "prompts/get", "x"])
NAMES = st.sampled_from(["a", "é", "b"])


@examples(300)
@given(
    meta=st.fixed_dictionaries(
        {names.META_VERSION: VERSIONS}, optional={names.META_CAPABILITIES: st.just({}), "other": st.none()}
    ),
    method=METHODS,
    params=st.fixed_dictionaries({"name": NAMES, "uri": NAMES}),
    sent=st.fixed_dictionaries(
        {},
        optional={
            "mcp-protocol-version": VERSIONS,
            "mcp-method": METHODS,
            "mcp-name": NAMES.map(headers.encode_value),
        },
    ),
)
def test_modern_bodies_are_judged_like_in_the_official_sdk(
    meta: dict[str, Any], method: str, params: dict[str, str], sent: dict[str, str]
) -> None:
    message = body(method, meta=meta, **params)
    ours = classify(CIMultiDict(sent), json.dumps(message).encode())
    theirs = classify_inbound_request(message, headers=sent)
    if isinstance(theirs, InboundLadderRejection):
        assert rejected(ours) == (400, theirs.code)
    else:
        assert accepted(ours).revision == theirs.protocol_version


@given(
    st.dictionaries(st.sampled_from(["Mcp-Method", "MCP-Protocol-Version", "Mcp-Name"]), st.text()),
    st.binary(),
)
def test_no_body_and_no_header_raises_no_exception(sent: dict[str, str], content: bytes) -> None:
    assert isinstance(classify(CIMultiDict(sent), content), Inbound | Rejection)
