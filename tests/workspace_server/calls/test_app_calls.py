"""Which app a session opened last, and that remembering it has an end."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from lm_tools_bridge.protocol import headers
from workspace_server.calls.app_calls import MAX_SESSIONS, OpenedApps
from workspace_server.calls.request import McpRequest, internal_request


def request_of(caller: str) -> McpRequest:
    header: Any = {headers.CALLER: caller} if caller else {}
    return replace(internal_request("t"), header=header)


MINE, OTHER, NOBODY = request_of("mine"), request_of("other"), request_of("")
BOTH = ("stdio:a", "stdio:b")


def test_the_last_one_counts_among_those_that_are_asked_for() -> None:
    opened = OpenedApps()
    assert opened.last(MINE, BOTH) is None
    for source in ("stdio:a", "stdio:b", "stdio:a", "stdio:c"):
        opened.note(MINE, source)
    assert opened.last(MINE, BOTH) == "stdio:a"
    assert opened.last(MINE, ("stdio:b",)) == "stdio:b"
    assert opened.last(OTHER, BOTH) is None


def test_a_client_without_a_session_is_never_taken_for_another() -> None:
    opened = OpenedApps()
    opened.note(NOBODY, "stdio:a")
    assert opened.last(NOBODY, BOTH) is None


def test_the_session_that_opened_none_for_the_longest_time_is_forgotten_first() -> None:
    opened = OpenedApps()
    opened.note(MINE, "stdio:a")
    opened.note(OTHER, "stdio:a")
    opened.note(MINE, "stdio:b")
    for number in range(MAX_SESSIONS - 1):
        opened.note(request_of(f"more-{number}"), "stdio:a")
    assert opened.last(OTHER, BOTH) is None
    assert opened.last(MINE, BOTH) == "stdio:b"
