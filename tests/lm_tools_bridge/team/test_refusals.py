"""What agents read of calls to members that have no answer."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.team import refusals
from lm_tools_bridge.team.calls.remote_call import TIMED_OUT


def error(refusal: Refusal) -> dict[str, object]:
    said: dict[str, object] = json.loads(refusal.as_error(b"1"))["error"]
    return said


@pytest.mark.parametrize(
    ("refusal", "code", "delivered", "step"),
    [
        (refusals.unreachable("no route"), 47109, "no", "lmtb team status"),
        (refusals.no_host("docs", "unknown"), 47109, "no", "lmtb team status"),
        (refusals.no_host("docs", "not_accepted"), 47109, "no", "lmtb team use docs --host HOST"),
        (refusals.no_host("docs", "full"), 47105, "no", "wait 2 s, then retry"),
        (refusals.no_host("docs", "\x1b[31mhostile"), 47109, "no", "lmtb team status"),
        (refusals.lost("docs", TIMED_OUT), 47104, "unknown", ""),
        (
            refusals.lost("docs", "its host stopped"),
            47112,
            "unknown",
            "check whether the request took effect",
        ),
    ],
)
def test_every_refusal_says_whether_it_ran_and_what_to_do(
    refusal: Refusal, code: int, delivered: str, step: str
) -> None:
    said = error(refusal)
    data = said["data"]
    assert isinstance(data, dict)
    assert (said["code"], data["delivered"]) == (code, delivered)
    assert data["nextStep"]
    assert step in data["nextStep"]
    assert "hostile" not in str(said)
