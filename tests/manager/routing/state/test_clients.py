"""Tests of the table of recent clients."""

from __future__ import annotations

from lm_tools_bridge.protocol import headers
from manager.routing.resolution import Claims
from manager.routing.state.clients import MAX_CLIENTS, MAX_REQUESTS, Client, RecentClients, RequestRecord


def client(number: int) -> Client:
    return Client(b'{"name":"c%d"}' % number, "modern", "2026-07-28")


def seen(at: float, method: str = "tools/list", **response_headers: str) -> RequestRecord:
    return RequestRecord(at, method, Claims(query="/ws"), response_headers)


def test_a_client_keeps_its_last_requests_only() -> None:
    clients = RecentClients()
    for at in range(MAX_REQUESTS + 3):
        clients.record(client(1), seen(float(at)))
    [(found, requests)] = clients
    assert found == client(1)
    assert [one.at for one in requests] == [3.0, 4.0, 5.0, 6.0, 7.0]


def test_the_least_recently_seen_client_is_dropped() -> None:
    clients = RecentClients()
    for number in range(MAX_CLIENTS):
        clients.record(client(number), seen(float(number)))
    clients.record(client(0), seen(100.0))
    clients.record(client(1000), seen(101.0))
    known = [one for one, _ in clients]
    assert len(known) == MAX_CLIENTS
    assert known[-2:] == [client(0), client(1000)]
    assert client(1) not in known


def test_the_decision_can_be_recorded_after_the_request() -> None:
    """A handshake decides only while it is being answered."""
    response_headers: dict[str, str] = {}
    request = RequestRecord(1.0, "tools/call", Claims(), response_headers)
    assert (request.source, request.workspace) == ("none", None)
    response_headers |= {headers.WORKSPACE_SOURCE: "argument", headers.WORKSPACE_ID: "ws-1"}
    assert (request.source, request.workspace) == ("argument", "ws-1")


def test_shown_claims_are_bounded_and_valid_unicode() -> None:
    """Arguments and the session binding are not shown."""
    claims = Claims(
        path="w", argument_workspace="secret", session="bound", query="/a\udcff", header="x" * 500, codex=None
    )
    shown_texts = claims.shown_texts()
    assert shown_texts["path"] == "w"
    assert shown_texts["?cwd"] == "/a?"
    assert len(shown_texts["X-Workspace-Cwd"]) == 300
    assert set(shown_texts) == {"path", "?cwd", "X-Workspace-Cwd"}
