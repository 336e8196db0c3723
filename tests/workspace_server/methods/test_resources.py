"""Resources of sources over real HTTP: lists, and which sources are asked for a URI."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.clients.stateless_requests import Caller
from support.processes.workspace_app import serving
from support.servers.mcp_sources.tool_source import ScriptedSource, handshake_result, offerings, tool
from workspace_server.call_context import CallContext
from workspace_server.methods import resources
from workspace_server.tool import CallOutcome, RpcError

NOT_FOUND = RpcError(-32602, "no such thing")


def source(namespace: str, **offered: Any) -> ScriptedSource:
    """A source with the resources capability that has what it lists, and nothing else."""
    made = ScriptedSource([tool("t")], identity=f"stdio:{namespace}", namespace=namespace)
    made.offered = offerings(**offered)
    made.greeted = handshake_result(resources={})
    made.answers[names.RESOURCES_READ] = has(f"read by {namespace}", *offered.get("resources", ()))
    return made


def has(text: str, *uris: str) -> Any:
    async def read(params: Any, context: CallContext) -> CallOutcome:
        uri = msgspec.json.decode(params["uri"])
        return contents(uri, text) if not uris or uri in uris else NOT_FOUND

    return read


def fails(outcome: CallOutcome) -> Any:
    async def read(params: Any, context: CallContext) -> CallOutcome:
        return outcome

    return read


def contents(uri: str, text: str) -> msgspec.Raw:
    value = {"resultType": "complete", "contents": [{"uri": uri, "text": text, "x": 1}], "ttlMs": 0}
    return msgspec.Raw(
        msgspec.json.encode(
            {**value, "cacheScope": "private", "_meta": {names.META_SERVER: {"name": "s", "version": "1"}}}
        )
    )


async def text_of(caller: Caller, uri: str) -> str:
    result = await caller.result(names.RESOURCES_READ, {"uri": uri})
    return str(result["contents"][0]["text"])


@pytest.mark.parametrize(
    ("method", "member", "key"),
    [(names.RESOURCES_LIST, "resources", "uri"), (names.TEMPLATES_LIST, "resourceTemplates", "uriTemplate")],
)
async def test_pages_show_our_own_entries_first_and_each_once(method: str, member: str, key: str) -> None:
    uris = [f"{scheme}://{n}" for scheme in ("aa", "lm", "zz") for n in range(3)]
    made = source("s", resources=uris, templates=uris)
    async with serving([made], settings={"page_size": 2}) as served:
        found: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = await served.caller.result(method, params)
            found += [entry[key] for entry in page[member]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert [uri for uri in found if not uri.startswith("lm-tools://")] == uris
        assert all(uri.startswith("lm-tools://") for uri in found[:2])
        assert len(set(found)) == len(found) == 2 + len(uris)
        assert (await served.caller.error(method, {"cursor": "bm8="}))["code"] == -32602


async def test_the_owner_of_a_uri_is_asked_and_its_result_comes_back_as_it_was() -> None:
    first, second = source("a", resources=["x://1"]), source("b", resources=["x://1", "x://2"])
    async with serving([first, second]) as served:
        assert await text_of(served.caller, "x://1") == "read by a"
        assert await text_of(served.caller, "x://2") == "read by b"
        raw = await served.caller.raw(names.RESOURCES_READ, '{"uri":"x://2","more":[1.50]}', name="x://2")
        assert b'"text":"read by b","x":1' in raw
        assert second.relayed[-1] == (names.RESOURCES_READ, {"uri": "x://2", "more": [1.5]})
        (issue,) = [one for one in served.toolset.issues() if one.code == "RESOURCE_URI_CLASH"]
        assert issue.details == "source stdio:b"


async def test_an_unlisted_uri_goes_to_sources_with_a_matching_template_first() -> None:
    """Results link to resources that are in no list."""
    other, fitting = source("a"), source("b", templates=["x://{id}"])
    silent = source("c")
    silent.greeted = handshake_result(tools={})
    async with serving([other, fitting, silent]) as served:
        assert await text_of(served.caller, "x://7") == "read by b"
        fitting.answers[names.RESOURCES_READ] = fails(NOT_FOUND)
        assert await text_of(served.caller, "x://8") == "read by a"
        assert (len(other.relayed), len(fitting.relayed), silent.relayed) == (1, 2, [])


@pytest.mark.parametrize("code", [-32602, -32002, -32601])
async def test_an_unknown_uri_is_an_error_that_names_it(code: int) -> None:
    first, second = source("a", resources=["x://gone"]), source("b")
    for one in (first, second):
        one.answers[names.RESOURCES_READ] = fails(RpcError(code, "no"))
    async with serving([first, second]) as served:
        for uri in ("x://gone", "x://never"):
            error = await served.caller.error(names.RESOURCES_READ, {"uri": uri})
            assert (error["code"], error["message"]) == (-32602, f"Resource not found: {uri}")
            assert error["data"]["uri"] == uri


async def test_an_error_with_data_of_its_owner_stays_as_it_is() -> None:
    made = source("a", resources=["x://1"])
    made.answers[names.RESOURCES_READ] = fails(RpcError(-32602, "no", msgspec.Raw(b'{"uri":"x://1","y":1}')))
    async with serving([made]) as served:
        error = await served.caller.error(names.RESOURCES_READ, {"uri": "x://1"})
        assert error == {"code": -32602, "message": "no", "data": {"uri": "x://1", "y": 1}}


async def test_a_sources_failure_is_reported_if_no_other_source_has_the_uri() -> None:
    down, other = source("a", templates=["x://{id}"]), source("b")
    down.answers[names.RESOURCES_READ] = fails(Refusal(Reason.SOURCE_UNAVAILABLE, "it is down"))
    async with serving([down, other]) as served:
        assert await text_of(served.caller, "x://1") == "read by b"
        other.answers[names.RESOURCES_READ] = fails(NOT_FOUND)
        error = await served.caller.error(names.RESOURCES_READ, {"uri": "x://1"})
        assert error["code"] == Reason.SOURCE_UNAVAILABLE.code


async def test_a_source_that_takes_too_long_is_stopped() -> None:
    made = source("a", resources=["x://1"])
    made.timeout_s = 0.05

    async def hang(params: Any, context: CallContext) -> CallOutcome:
        await made.cancelled.wait()
        raise AssertionError

    made.answers[names.RESOURCES_READ] = hang
    async with serving([made]) as served:
        error = await served.caller.error(names.RESOURCES_READ, {"uri": "x://1"})
        assert error["code"] == Reason.CALL_TIMED_OUT.code


async def test_a_hanging_source_delays_the_next_one_only_briefly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing says that it has the resource."""
    monkeypatch.setattr(resources, "UNLIKELY_S", 0.05)
    hangs, other = source("a"), source("b")

    async def hang(params: Any, context: CallContext) -> CallOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    hangs.answers[names.RESOURCES_READ] = hang
    async with serving([hangs, other]) as served:
        assert await text_of(served.caller, "x://1") == "read by b"


async def test_a_source_may_ask_its_client_before_it_reads() -> None:
    """The state leads back to the source that asked, among several that might have it."""
    first, second = source("a"), source("b")
    first.answers[names.RESOURCES_READ] = fails(NOT_FOUND)
    form = msgspec.Raw(b'{"message":"who?","requestedSchema":{"type":"object","properties":{}}}')

    async def ask(params: Any, context: CallContext) -> CallOutcome:
        answer = await context.ask(names.ELICIT, form)
        assert isinstance(answer, msgspec.Raw)
        return contents("x://1", bytes(answer).decode())

    second.answers[names.RESOURCES_READ] = ask
    meta = {names.META_CAPABILITIES: {"elicitation": {"form": {}}}}
    async with serving([first, second]) as served:
        answer = await served.caller.message(names.RESOURCES_READ, {"uri": "x://1"}, **meta)
        asked = answer["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        again = {
            "uri": "x://1",
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "decline"}},
        }
        answer = await served.caller.message(names.RESOURCES_READ, again, **meta)
        assert answer["result"]["contents"][0]["text"] == '{"action": "decline"}'
        answer = await served.caller.message(names.RESOURCES_READ, again, **meta)
        assert answer["error"]["code"] == -32602
        assert "requestState" in answer["error"]["message"]
