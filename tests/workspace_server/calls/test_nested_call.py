"""Input requests of calls that a script makes go to the caller of the script."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server.call_context import CallContext
from workspace_server.calls import toolbox
from workspace_server.tool import CallOutcome, RpcError, ToolResult

FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
QUESTION = {"method": names.ELICIT, "params": FORM}


def interim(*keys: str, **members: Any) -> msgspec.Raw:
    """A result that asks these questions."""
    asked = dict.fromkeys(keys, QUESTION)
    return jsonrpc.raw({"resultType": "input_required", "inputRequests": asked, **members})


class Script:
    """Whoever called the script answers `answers`, one after the other; `asked` is what they were asked."""

    def __init__(self, *answers: str | RpcError) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, Any]] = []
        self.context = CallContext(ask=self._ask, params={"_meta": msgspec.Raw(b'{"own":1.50}')})

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        self.asked.append((method, json.loads(bytes(params) or b"null")))
        answer = self._answers.pop(0)
        return answer if isinstance(answer, RpcError) else msgspec.Raw(answer.encode())


async def test_a_source_whose_result_asks_for_input_is_called_again_with_answers() -> None:
    """Its state comes back to it, and the bytes of the answers."""
    script = Script('{"n": 1.50}', '{"n": 2.0}', '{"n": 3}')
    seen: list[dict[str, bytes]] = []

    async def work(context: CallContext) -> CallOutcome:
        seen.append({key: bytes(raw) for key, raw in context.params.items()})
        rounds: list[CallOutcome] = [interim("a", "b", requestState="s1"), interim("c"), ToolResult("done")]
        return rounds[len(seen) - 1]

    assert await toolbox.run_nested(script.context, work) == ToolResult("done")
    meta = {"_meta": b'{"own":1.50}'}
    assert seen == [
        meta,
        {**meta, "inputResponses": b'{"a":{"n": 1.50},"b":{"n": 2.0}}', "requestState": b'"s1"'},
        {**meta, "inputResponses": b'{"c":{"n": 3}}'},
    ]
    assert script.asked == [(names.ELICIT, FORM)] * 3


async def test_questions_of_one_result_are_asked_at_the_same_time() -> None:
    """So that one round of the client answers them all."""
    asked = 0
    both = asyncio.Event()

    async def ask(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        nonlocal asked
        asked += 1
        if asked == 2:
            both.set()
        async with asyncio.timeout(10):
            await both.wait()
        return msgspec.Raw(b"{}")

    async def work(context: CallContext) -> CallOutcome:
        return ToolResult("done") if "inputResponses" in context.params else interim("a", "b")

    assert await toolbox.run_nested(CallContext(ask=ask), work) == ToolResult("done")


@pytest.mark.parametrize("code", [-32601, -32021, -1])
async def test_an_error_in_place_of_an_answer_is_the_outcome(code: int) -> None:
    refused = RpcError(code, "no")

    async def work(context: CallContext) -> CallOutcome:
        return interim("a")

    assert await toolbox.run_nested(Script(refused).context, work) is refused


async def test_a_source_that_never_has_enough_is_given_up() -> None:
    async def work(context: CallContext) -> CallOutcome:
        return interim("a")

    script = Script(*["{}"] * toolbox.MAX_REPEATS)
    outcome = await toolbox.run_nested(script.context, work)
    assert isinstance(outcome, RpcError)
    assert len(script.asked) == toolbox.MAX_REPEATS


@pytest.mark.parametrize("requests", [[], {"a": 7}, {"a": {"method": 7}}, {"a": {"params": {}}}])
async def test_what_is_no_question_is_asked_as_nothing_anybody_answers(requests: Any) -> None:
    """A server that breaks the protocol breaks its own call only."""
    script = Script(RpcError(-32601, "no such question"))

    async def work(context: CallContext) -> CallOutcome:
        if "inputResponses" in context.params:
            return ToolResult("done")
        return jsonrpc.raw({"resultType": "input_required", "inputRequests": requests})

    outcome = await toolbox.run_nested(script.context, work)
    assert outcome == ToolResult("done") if requests == [] else isinstance(outcome, RpcError)
    assert [method for method, _ in script.asked] == ([] if requests == [] else [""])
