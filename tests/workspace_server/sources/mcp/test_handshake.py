"""Which era is tried first, and when the other one is tried."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.names import Era
from support.servers.mcp_sources.scripted_transport import INITIALIZE_RESULT, Message, ScriptedTransport
from workspace_server.sources.mcp import handshake
from workspace_server.sources.mcp.failures import SessionFailed
from workspace_server.sources.mcp.remote.failures import HttpFailure
from workspace_server.sources.mcp.session import Session

DISCOVERED: Message = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}


async def era_of(transport: ScriptedTransport, timeout_s: float = 5.0) -> tuple[Era, list[str]]:
    """Opens a session, modern era first; returns the agreed era and the methods that were sent."""
    session = await Session.open(
        transport,
        source="remote:x",
        root="/w",
        timeout_s=timeout_s,
        on_change=lambda _: None,
        on_end=lambda _: None,
        version="1",
        first=Era.MODERN,
    )
    try:
        return session.handshake_result.era, [one["method"] for one in transport.sent]
    finally:
        await session.close()


def probed(answer: Any) -> ScriptedTransport:
    """A legacy server that answers the probe with a result, an error or a failure."""

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message["method"] != names.DISCOVER or answer is None:
            return
        if isinstance(answer, Exception):
            transport.fail_request(message, answer)  # all of them are failures of one request
        else:
            transport.deliver({"id": message["id"], **answer})

    return ScriptedTransport(serve)


async def test_a_server_of_both_eras_is_used_in_the_modern_one() -> None:
    """Over HTTP the modern era is preferred, because each request carries the client's capabilities."""
    assert await era_of(probed({"result": DISCOVERED})) == (Era.MODERN, [names.DISCOVER])


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32601, "message": "no"}},
        {"error": {"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"]}}},
        {"result": {**DISCOVERED, "supportedVersions": ["2031-01-01"]}},
        {"result": {**DISCOVERED, "supportedVersions": ["2025-11-25"]}},
        {"result": {}},
        HttpFailure("rejected", "HTTP 400", status=400),
        HttpFailure("rejected", "HTTP 202 and nothing else", "unknown", status=202),
        HttpFailure("failing", "HTTP 501", "unknown", status=501),
    ],
)
async def test_any_other_answer_to_the_probe_leads_to_the_legacy_era(answer: Any) -> None:
    era, sent = await era_of(probed(answer))
    assert era is Era.LEGACY
    assert sent == [names.DISCOVER, names.INITIALIZE, names.INITIALIZED]


async def test_a_probe_without_answer_leads_to_the_legacy_era(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "PROBE_S", 0.05)
    assert (await era_of(probed(None)))[0] is Era.LEGACY


@pytest.mark.parametrize(
    "failure",
    [
        HttpFailure("unauthorized", "HTTP 401", status=401),
        HttpFailure("unreachable", "nobody there"),
        HttpFailure("throttled", "HTTP 429", status=429),
    ],
)
async def test_a_server_that_refuses_requests_is_not_tried_twice(failure: HttpFailure) -> None:
    transport = probed(failure)
    with pytest.raises(SessionFailed) as caught:
        await era_of(transport)
    assert caught.value.__cause__ is failure
    assert [one["method"] for one in transport.sent] == [names.DISCOVER]


async def test_a_refusal_of_both_eras_names_the_second() -> None:
    def serve(transport: ScriptedTransport, message: Message) -> None:
        transport.deliver(
            {"id": message["id"], "error": {"code": -32000, "message": f"not {message['method']}"}}
        )

    transport = ScriptedTransport(serve, handshake_result={})
    with pytest.raises(SessionFailed, match="not initialize"):
        await era_of(transport)
    assert [one["method"] for one in transport.sent] == [names.DISCOVER, names.INITIALIZE, names.TOOLS_LIST]


@pytest.mark.parametrize("code", [-32601, -32022, -32020, -32602])
async def test_a_stateless_server_without_discover_is_recognized_by_its_list(code: int) -> None:
    """It gets no `notifications/initialized`, and the capabilities that cannot be asked for are assumed."""

    def serve(transport: ScriptedTransport, message: Message) -> None:
        meta = message["params"].get("_meta", {})
        if message["method"] == names.TOOLS_LIST and meta.get(names.META_VERSION) == "2026-07-28":
            transport.answer(message, {"tools": []})
        else:
            transport.deliver({"id": message["id"], "error": {"code": code, "message": "no"}})

    sent = [names.DISCOVER, names.INITIALIZE, names.TOOLS_LIST]
    assert await era_of(ScriptedTransport(serve, handshake_result={})) == (Era.MODERN, sent)


async def test_a_server_that_initializes_the_stateless_revision_is_used_statelessly() -> None:
    """It still gets `notifications/initialized`."""

    def serve(transport: ScriptedTransport, message: Message) -> None:
        if message["method"] == names.DISCOVER:
            transport.deliver({"id": message["id"], "error": {"code": -32601, "message": "no"}})

    transport = ScriptedTransport(serve, {**INITIALIZE_RESULT, "protocolVersion": "2026-07-28"})
    era, sent = await era_of(transport)
    assert (era, sent[:3]) == (Era.MODERN, [names.DISCOVER, names.INITIALIZE, names.INITIALIZED])


async def test_the_whole_handshake_has_one_deadline() -> None:
    transport = ScriptedTransport(lambda *_: None, handshake_result={})
    async with asyncio.timeout(5):
        with pytest.raises(SessionFailed, match=r"within 0\.05 s"):
            await era_of(transport, 0.05)
