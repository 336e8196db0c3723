"""Without a part that shows waiting calls to a person, nothing waits for one and nothing is answered."""

from __future__ import annotations

from lm_tools_bridge.protocol import jsonrpc, names
from manager.waiting_calls import NobodyAnswers, WaitingCalls


async def test_where_nobody_answers_no_call_waits_and_no_answer_counts() -> None:
    nobody: WaitingCalls = NobodyAnswers()
    call = {
        "id": "a",
        "tool": "run",
        "client": "c",
        "question": "?",
        "since": 1.0,
        "until": 2.0,
        "waits": True,
    }
    nobody.report("i", "shop-1", "/shop", jsonrpc.notification(names.APPROVALS, {"approvals": [call]}))
    assert (nobody.wait_s, nobody.as_json(1.0), nobody.questions()) == (0.0, [], [])
    answer = await nobody.answer("a", approve=True, where="on the page")
    assert not answer.ok
    assert not nobody.watch("a").done()
