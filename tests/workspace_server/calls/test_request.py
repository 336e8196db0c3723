"""Tests how long a request may wait for sources: once in all, however often it has to wait."""

from __future__ import annotations

import time

import msgspec
import pytest

from lm_tools_bridge.protocol import headers
from workspace_server.calls.request import internal_request


@pytest.mark.parametrize(
    ("given", "waited_s", "left_s"),
    [("1800", 0.5, 1.3), ("1800", 3.0, 0.0), ("x", 0.5, None), ("", 0.0, None)],
)
def test_what_a_list_may_wait_runs_from_the_arrival(
    monkeypatch: pytest.MonkeyPatch, given: str, waited_s: float, left_s: float | None
) -> None:
    now = time.monotonic()
    header = {headers.LIST_WAIT: given}
    made = msgspec.structs.replace(internal_request("a"), header=header, arrived=now)
    monkeypatch.setattr(time, "monotonic", lambda: now + waited_s)
    assert made.list_wait_s == (None if left_s is None else pytest.approx(left_s))
