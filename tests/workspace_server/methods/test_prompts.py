"""Prompts of sources over real HTTP, and completions of their arguments."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason
from support.clients.stateless_requests import Caller
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, handshake_result, offerings
from workspace_server.call_context import CallContext
from workspace_server.tool import CallOutcome, RpcError


def source(*prompts: str, **offered: Any) -> ScriptedSource:
    made = ScriptedSource(identity="stdio:s", namespace="s")
    made.offered = offerings(prompts, **offered)
    made.greeted = handshake_result(prompts={}, completions={})
    return made


async def prompt(params: Any, context: CallContext) -> CallOutcome:
    return msgspec.Raw(
        b'{"messages":[{"role":"user","content":{"type":"text","text":"hi","x":1.10}}],"resultType":"complete"}'
    )


async def values(params: Any, context: CallContext) -> CallOutcome:
    return msgspec.Raw(b'{"completion":{"values":["a"],"hasMore":false},"resultType":"complete"}')


async def test_a_prompt_is_asked_for_by_the_name_its_source_knows() -> None:
    made = source("a.b")
    made.answers[names.PROMPTS_GET] = prompt
    async with serving([made]) as served:
        (listed,) = (await served.caller.result(names.PROMPTS_LIST))["prompts"]
        assert listed == {"name": "s__a_b"}
        raw = await served.caller.raw(
            names.PROMPTS_GET, '{"name":"s__a_b","arguments":{"who":"me"},"z":0}', name="s__a_b"
        )
        assert b'"x":1.10' in raw
        assert made.relayed == [(names.PROMPTS_GET, {"name": "a.b", "arguments": {"who": "me"}, "z": 0})]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("ready", -32602),
        ("pending_trust", Reason.WORKSPACE_PENDING_TRUST.code),
        ("starting", Reason.SOURCE_UNAVAILABLE.code),
    ],
)
async def test_an_unknown_prompt_says_whether_it_may_be_there_another_time(state: Any, code: int) -> None:
    made = source()
    made.state, made.trust_path = state, "/project"
    async with serving([made]) as served:
        assert (await served.caller.error(names.PROMPTS_GET, {"name": "s__p"}))["code"] == code
        assert (await served.caller.error(names.PROMPTS_GET, {"name": "other"}))["code"] == -32602


async def complete(caller: Caller, ref: Any, argument: Any = None) -> dict[str, Any]:
    asked = {"ref": ref, "argument": argument or {"name": "who", "value": "x"}}
    return await caller.message(names.COMPLETE, asked)


REFS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "prompt": ({"type": "ref/prompt", "name": "s__p"}, {"type": "ref/prompt", "name": "p"}),
    "template": ({"type": "ref/resource", "uri": "x://{t}"}, {"type": "ref/resource", "uri": "x://{t}"}),
    "resource": ({"type": "ref/resource", "uri": "x://r"}, {"type": "ref/resource", "uri": "x://r"}),
}


@pytest.mark.parametrize("kind", REFS)
async def test_completion_asks_the_source_by_its_own_names(kind: str) -> None:
    made = source("p", resources=["x://r"], templates=["x://{t}"])
    made.answers[names.COMPLETE] = values
    sent, received = REFS[kind]
    async with serving([made]) as served:
        answer = await complete(served.caller, {**sent, "title": "T"})
        assert answer["result"]["completion"] == {"values": ["a"], "hasMore": False}
        ((_, params),) = made.relayed
        assert params == {"ref": {**received, "title": "T"}, "argument": {"name": "who", "value": "x"}}


async def test_a_source_that_completes_nothing_proposes_nothing() -> None:
    async with serving([source("p")]) as served:
        answer = await complete(served.caller, REFS["prompt"][0])
        assert answer["result"]["completion"]["values"] == []


@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        ({"type": "ref/prompt", "name": "s__other"}, None),
        ({"type": "ref/prompt"}, None),
        ({"type": "ref/resource", "uri": "y://r"}, None),
        ({"type": "else", "name": "s__p"}, None),
        ([], None),
        (REFS["prompt"][0], {"name": "who"}),
        (REFS["prompt"][0], {"name": 1, "value": "x"}),
        ({"type": "ref/resource", "uri": names.TEMPLATE_TOOL}, {"name": "other", "value": ""}),
    ],
)
async def test_a_reference_to_nothing_is_invalid(ref: Any, argument: Any) -> None:
    made = source("p")
    async with serving([made]) as served:
        assert (await complete(served.caller, ref, argument))["error"]["code"] == -32602
        assert made.relayed == []


async def test_a_changed_prompt_is_announced_and_nothing_else() -> None:
    """Each kind of list when that one changed."""
    made = source("p")
    async with serving([made]) as served:
        heard: list[frozenset[str]] = []
        await served.toolset.current()
        served.toolset.listen(heard.append)
        for offered in (offerings(["q"]), offerings(["q"], ["x://r"]), offerings(["q"], ["x://r"], ["{t}"])):
            made.offered = offered
            await changed(served, heard)
        assert heard == [frozenset({"prompts"}), frozenset({"resources"}), frozenset({"resources"})]


async def changed(served: Serving, heard: list[Any]) -> None:
    before = len(heard)
    served.toolset.touch()
    async with asyncio.timeout(5):
        while len(heard) == before:
            await asyncio.sleep(0.01)


async def test_an_error_of_the_source_comes_back_as_it_is() -> None:
    made = source("p")

    async def fail(params: Any, context: CallContext) -> CallOutcome:
        return RpcError(-32000, "odd", msgspec.Raw(b"[1.10]"))

    made.answers[names.PROMPTS_GET] = fail
    async with serving([made]) as served:
        raw = await served.caller.raw(names.PROMPTS_GET, '{"name":"s__p"}', name="s__p")
        assert b'"code":-32000,"message":"odd","data":[1.10]' in raw
