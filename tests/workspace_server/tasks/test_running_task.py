"""The call behind a task: where its input requests and notifications go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from workspace_server.call_context import CallContext
from workspace_server.tasks.running_task import RunningTask, Work
from workspace_server.tool import CallOutcome, RpcError, ToolResult

CAPABLE: dict[str, Any] = {"elicitation": {}, "extensions": {tasks.EXTENSION: {}, "other": {}}}
QUESTION = msgspec.Raw(b'{"message":"name?","requestedSchema":{"type":"object"}}')
YES = msgspec.Raw(b'{"action":"accept","content":{}}')


class Client:
    """Whoever made the call: hears and answers."""

    def __init__(self) -> None:
        self.received: list[tuple[str, Mapping[str, Any]]] = []
        self.asked: list[str] = []

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.received.append((method, params))

    async def ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
        self.asked.append(method)
        return YES

    def context(self, **meta: Any) -> CallContext:
        return CallContext(
            notify=self.notify, ask=self.ask, capabilities=CAPABLE, params={"_meta": jsonrpc.raw(meta)}
        )


def running(context: CallContext, work: Work | None = None) -> tuple[RunningTask, list[str]]:
    """A running call, and the states that were reported as changed."""
    news: list[str] = []
    one = RunningTask(context, lambda: news.append(one.status))
    if work is not None:
        one.work = asyncio.ensure_future(work(one.context))
    return one, news


def become_task(one: RunningTask) -> None:
    with one.becoming_task() as become:
        become()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_source_gets_all_capabilities_except_tasks() -> None:
    one, _ = running(Client().context())
    assert one.context.capabilities == {"elicitation": {}, "extensions": {"other": {}}}


async def test_a_client_gets_requests_before_its_call_becomes_a_task() -> None:
    client = Client()
    one, news = running(client.context(progressToken=7))
    assert await one.context.ask("elicitation/create", QUESTION) == YES
    await one.context.notify(names.PROGRESS, {"progress": 1, "progressToken": 7})
    assert client.asked == ["elicitation/create"]
    assert [method for method, _ in client.received] == [names.PROGRESS]
    assert news == []


async def test_progress_without_a_token_is_only_for_the_task() -> None:
    client = Client()
    one, _ = running(client.context())
    assert "progressToken" in one.context.meta
    await one.context.notify(names.PROGRESS, {"progress": 1, "message": "half\x1b[31m way"})
    assert client.received == []
    assert one.message == "half way"


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"progress": 3, "total": 10}, "3 of 10"),
        ({"progress": 3}, None),
        ({"progress": msgspec.Raw(b"2"), "message": msgspec.Raw(b'"two"')}, "two"),
        ({"progress": 1, "message": "x" * 2000}, "x" * 500),
    ],
)
async def test_progress_is_a_sentence_about_the_task(params: Mapping[str, Any], sentence: str | None) -> None:
    one, _ = running(Client().context())
    become_task(one)
    await one.context.notify(names.PROGRESS, params)
    assert one.message == sentence


async def test_a_task_tells_its_former_client_nothing() -> None:
    client = Client()
    one, _ = running(client.context(progressToken=7))
    become_task(one)
    await one.context.notify(names.PROGRESS, {"progress": 1, "progressToken": 7})
    await one.context.notify("notifications/message", {"level": "info", "data": "x"})
    assert client.received == []


async def test_question_of_a_task_waits_for_its_answer() -> None:
    one, news = running(Client().context())
    become_task(one)
    asking = asyncio.ensure_future(one.context.ask("elicitation/create", QUESTION))
    await settle()
    assert one.status == "input_required"
    ((key, request),) = one.requests.items()
    assert jsonrpc.bytes_of(request) == b'{"method":"elicitation/create","params":%b}' % bytes(QUESTION)
    one.answer({"other": YES, key: msgspec.Raw(b"[]")})
    await settle()
    assert not asking.done()
    assert one.context.is_suspended(), "nobody knows whether its client ever asks about it again"
    one.answer({key: YES})
    assert dict(one.requests) == {}
    assert not one.context.is_suspended()
    assert await asking == YES
    assert news == ["input_required", "working"]


async def test_key_of_a_question_is_never_used_again() -> None:
    one, _ = running(Client().context())
    become_task(one)
    seen = set()
    for _ in range(3):
        asking = asyncio.ensure_future(one.context.ask("elicitation/create", QUESTION))
        await settle()
        (key,) = one.requests
        seen.add(key)
        one.answer({key: YES})
        await asking
    assert len(seen) == 3


async def test_question_while_it_becomes_a_task_waits_for_that() -> None:
    client = Client()
    one, _ = running(client.context())
    with one.becoming_task() as become:
        asking = asyncio.ensure_future(one.context.ask("elicitation/create", QUESTION))
        await settle()
        assert (client.asked, dict(one.requests)) == ([], {})
        become()
    await settle()
    assert client.asked == []
    assert len(one.requests) == 1
    asking.cancel()


async def test_question_goes_to_the_client_if_there_is_no_task_in_the_end() -> None:
    client = Client()
    one, _ = running(client.context())
    with one.becoming_task():
        asking = asyncio.ensure_future(one.context.ask("elicitation/create", QUESTION))
        await settle()
    assert await asking == YES
    assert client.asked == ["elicitation/create"]


async def test_question_the_client_cannot_answer_ends_the_task_with_that_error() -> None:
    """Its source is cancelled before it gets the error for its input request."""
    happened: list[object] = []

    async def ask(context: CallContext) -> None:
        await asyncio.sleep(0)
        happened.append(await context.ask("sampling/createMessage", msgspec.Raw(b"{}")))

    async def work(context: CallContext) -> CallOutcome:
        asking = asyncio.ensure_future(ask(context))
        try:
            await asyncio.Event().wait()
        finally:
            happened.append("cancelled")
        raise AssertionError(asking)

    one, _ = running(Client().context(), work)
    become_task(one)
    outcome = await one.finish(work)
    assert isinstance(outcome, RpcError)
    assert outcome.code == -32021
    assert outcome.data == jsonrpc.raw({"requiredCapabilities": {"sampling": {}}})
    await settle()
    first, second = happened
    assert first == "cancelled"
    assert isinstance(second, RpcError)


async def test_source_that_asks_with_its_result_is_called_again_with_all_answers() -> None:
    seen: list[Mapping[str, msgspec.Raw]] = []
    asked = {"first": {"method": "a"}, "second": {"method": "b", "params": {"x": 1.50}}}

    async def work(context: CallContext) -> CallOutcome:
        seen.append(context.params)
        if len(seen) == 1:
            return jsonrpc.raw(
                {"resultType": "input_required", "inputRequests": asked, "requestState": "s\u00e9"}
            )
        return ToolResult("done")

    one, _ = running(Client().context(), work)
    become_task(one)
    ending = asyncio.ensure_future(one.finish(work))
    await settle()
    first, second = one.requests
    one.answer({second: msgspec.Raw(b'{"n": 1.50}')})
    await settle()
    assert list(one.requests) == [first]
    one.answer({first: YES})
    assert await ending == ToolResult("done")
    again = seen[1]
    assert jsonrpc.bytes_of(again["inputResponses"]) == b'{"first":%b,"second":{"n": 1.50}}' % bytes(YES)
    assert jsonrpc.text_of(again["requestState"]) == "s\u00e9"


async def test_source_that_never_has_enough_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workspace_server.tasks.running_task.PAUSE_S", 0)

    async def work(context: CallContext) -> CallOutcome:
        return jsonrpc.raw({"resultType": "input_required", "requestState": "again"})

    one, _ = running(Client().context(), work)
    become_task(one)
    outcome = await one.finish(work)
    assert isinstance(outcome, RpcError)
    assert outcome.code == jsonrpc.INTERNAL_ERROR
