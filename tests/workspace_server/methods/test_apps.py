"""MCP Apps over real HTTP: which clients see what of them, and whose pages and tools are meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import apps_extension, headers, names
from support.clients.stateless_requests import Caller
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.app_source import DATA, PAGE, SHOWS_APPS, AppSource, app_only_tool, page_tool
from support.servers.mcp_sources.tool_source import ScriptedSource, offerings, tool
from workspace_server.methods import resources
from workspace_server.tool import Tool, ToolResult


async def tool_names(served: Serving, **meta: Any) -> list[str]:
    result = await served.caller.result(names.TOOLS_LIST, **meta)
    return [entry["name"] for entry in result["tools"]]


async def test_tools_for_apps_alone_are_listed_for_clients_that_show_apps_and_for_no_others() -> None:
    async with serving([AppSource("clock")]) as served:
        assert await tool_names(served) == ["clock__plain", "clock__show-time"]
        with_apps = ["clock__get-time", "clock__plain", "clock__show-time"]
        assert await tool_names(served, **SHOWS_APPS) == with_apps
        assert await tool_names(served) == ["clock__plain", "clock__show-time"], "one list is not the other"


async def test_a_tool_that_nobody_may_call_is_no_tool_for_models() -> None:
    both, nobody = page_tool("both", visibility=["model", "app"]), page_tool("nobody", visibility=[])
    async with serving([AppSource("clock", both, nobody, page_tool("strange", visibility="app"))]) as served:
        assert await tool_names(served) == ["clock__both", "clock__strange"]


@pytest.mark.parametrize("declares", [False, True])
async def test_a_model_finds_a_tool_for_apps_neither_by_search_nor_by_execute_tool(declares: bool) -> None:
    source = AppSource("clock", app_only_tool(), tool("late"))
    source.tools = (*source.tools, tool("rare", visibility="ondemand"))
    async with serving([source]) as served:
        meta = SHOWS_APPS if declares else {}
        found = await served.caller.result(
            names.TOOLS_CALL, {"name": "tool_search", "arguments": {"query": "get time"}}, **meta
        )
        assert "get-time" not in str(found["content"])
        wrapped = {"name": "clock__get-time", "arguments": {}}
        answer = await served.caller.result(
            names.TOOLS_CALL, {"name": "execute_tool", "arguments": wrapped}, **meta
        )
        assert answer["isError"] is True
        assert source.calls == []


async def test_a_client_without_apps_cannot_call_a_tool_for_apps_and_is_not_told_its_name() -> None:
    source = AppSource("clock")
    async with serving([source]) as served:
        error = await served.caller.error(names.TOOLS_CALL, {"name": "clock__get-time", "arguments": {}})
        assert error["message"].startswith("Tool not found or disabled: clock__get-time. ")
        assert error["data"]["details"]["nearest"] == []
        resources = await served.caller.result(names.RESOURCES_LIST)
        assert not [entry for entry in resources["resources"] if entry["uri"].endswith("get-time")]
        assert source.calls == []
        result = await served.caller.result(
            names.TOOLS_CALL, {"name": "clock__get-time", "arguments": {}}, **SHOWS_APPS
        )
        assert result["structuredContent"] == {"ran": "get-time"}


async def test_a_script_does_not_reach_tools_for_apps() -> None:
    clock, script = AppSource("clock"), ScriptedSource([tool("nightly")])
    seen: dict[str, Any] = {}

    async def ask_for_time(arguments: Any, context: Any) -> Any:
        seen["listed"] = [definition["name"] for definition in await context.toolbox.listed()]
        seen["answer"] = await context.toolbox.call("clock__get-time", {})
        return ToolResult("asked")

    script.answers["nightly"] = ask_for_time
    async with serving([clock, script]) as served:
        await served.caller.result(names.TOOLS_CALL, {"name": "nightly", "arguments": {}}, **SHOWS_APPS)
    assert seen["listed"] == ["clock__plain", "clock__show-time", "nightly"]
    assert "error" in seen["answer"]
    assert clock.calls == []


UI = apps_extension.EXTENSION


async def extensions(served: Serving) -> Any:
    return (await served.caller.result(names.DISCOVER))["capabilities"]["extensions"]


@pytest.mark.parametrize("namespace", [None, "other"])
async def test_apps_are_declared_if_a_server_declares_them_or_a_tool_has_one(namespace: str | None) -> None:
    """Many servers do not declare what their tools have."""
    plain = ScriptedSource([tool("t")], identity="stdio:plain", namespace=namespace)
    async with serving([plain]) as served:
        assert UI not in await extensions(served)
    async with serving([plain, AppSource("clock")]) as served:
        assert (await extensions(served))[UI] == {}
    plain.has_apps = True
    async with serving([plain]) as served:
        assert (await extensions(served))[UI] == {}


async def pages(served: Serving) -> dict[str, str]:
    """The page of each tool, by name; both ways to name it agree."""
    result = await served.caller.result(names.TOOLS_LIST, **SHOWS_APPS)
    metas = {entry["name"]: entry.get("_meta", {}) for entry in result["tools"]}
    uis = {name: meta for name, meta in metas.items() if "ui/resourceUri" in meta}
    assert all(meta["ui"]["resourceUri"] == meta["ui/resourceUri"] for meta in uis.values())
    return {name: meta["ui/resourceUri"] for name, meta in uis.items()}


async def read(served: Serving, uri: str, **meta: Any) -> str:
    """The text at an address; the contents name the address that was asked for."""
    result = await served.caller.result(names.RESOURCES_READ, {"uri": uri}, **{**SHOWS_APPS, **meta})
    (entry,) = result["contents"]
    assert entry["uri"] == uri
    assert entry["_meta"] == {"ui": {"csp": {"connectDomains": ["https://example.org"]}}}
    return str(entry["text"])


@pytest.mark.parametrize("listed", [(PAGE,), ()], ids=["listed", "only named by its tool"])
async def test_equal_pages_of_two_servers_are_kept_apart_and_the_first_stays_as_written(
    listed: tuple[str, ...],
) -> None:
    sources = [AppSource("timeapp", listed=listed), AppSource("clock", listed=listed)]
    async with serving(sources) as served:
        found = await pages(served)
        assert found == {"timeapp__show-time": PAGE, "clock__show-time": "ui://clock+time/page.html"}
        assert await read(served, found["timeapp__show-time"]) == "page of timeapp"
        assert await read(served, found["clock__show-time"]) == "page of clock"
        resources = (await served.caller.result(names.RESOURCES_LIST))["resources"]
        shown = [entry["uri"] for entry in resources if entry["uri"].startswith("ui://")]
        assert shown == (["ui://clock+time/page.html", PAGE] if listed else [])
        assert not [issue for issue in served.toolset.issues() if issue.code == "RESOURCE_URI_CLASH"]


async def test_a_result_is_passed_on_byte_for_byte_unless_its_address_was_moved() -> None:
    first, second = AppSource("timeapp"), AppSource("clock")
    text = '{"resultType":"complete", "contents":[{"uri":"%s","text":"x","n":1.50}], "z" : 1,"ttlMs":0}'

    async def answer(params: Any, context: Any) -> Any:
        return msgspec.Raw((text % PAGE).encode())

    first.answers[names.RESOURCES_READ] = second.answers[names.RESOURCES_READ] = answer
    async with serving([first, second]) as served:
        as_written = await served.caller.raw(names.RESOURCES_READ, f'{{"uri":"{PAGE}"}}', name=PAGE)
        assert (text % PAGE).encode() in as_written
        moved = "ui://clock+time/page.html"
        rewritten = await served.caller.raw(names.RESOURCES_READ, f'{{"uri":"{moved}"}}', name=moved)
        assert f'{{"uri":"{moved}","text":"x","n":1.50}}'.encode() in rewritten


async def test_no_server_takes_the_address_that_another_ones_page_was_moved_to() -> None:
    stolen = "ui://clock+time/page.html"
    evil = AppSource("evil", page_tool("lure", stolen), listed=(stolen,))
    evil.contents = {stolen: "page of evil"}
    async with serving([evil, AppSource("timeapp"), AppSource("clock")]) as served:
        found = await pages(served)
        assert found["clock__show-time"] == stolen
        assert found["evil__lure"] == "ui://evil+clock+time/page.html"
        assert await read(served, stolen) == "page of clock"
        assert await read(served, found["evil__lure"]) == "page of evil"


async def test_a_server_that_comes_later_takes_no_address_away() -> None:
    """What a client has listed stays right, also if the new server stands first in the files."""
    late, early = AppSource("timeapp"), AppSource("clock")
    its_page, late.offered = late.offered, offerings()
    late.gate.clear()
    async with serving([late, early]) as served:
        assert (await pages(served))["clock__show-time"] == PAGE
        late.offered = its_page
        late.gate.set()
        served.toolset.touch()
        await served.toolset.wait_for_change(1.0)
        found = await pages(served)
        assert found == {"timeapp__show-time": "ui://timeapp+time/page.html", "clock__show-time": PAGE}
        assert await read(served, PAGE) == "page of clock"


async def test_what_a_template_stands_for_is_read_at_its_own_server() -> None:
    sources = [AppSource("timeapp", listed=()), AppSource("clock", listed=())]
    for source in sources:
        source.offered = offerings(templates=["ui://time/{zone}"])
        source.contents["ui://time/utc"] = f"UTC of {source.namespace}"
    async with serving(sources) as served:
        templates = (await served.caller.result(names.TEMPLATES_LIST))["resourceTemplates"]
        shown = [entry["uriTemplate"] for entry in templates if entry["uriTemplate"].startswith("ui://")]
        assert shown == ["ui://clock+time/{zone}", "ui://time/{zone}"]
        assert await read(served, "ui://clock+time/utc") == "UTC of clock"


async def test_a_subscription_to_a_moved_address_tells_of_that_address() -> None:
    timeapp, clock = AppSource("timeapp"), AppSource("clock")
    async with serving([timeapp, clock]) as served:
        view = await served.toolset.current()
        heard: list[str] = []
        ends = await resources.subscribe(view, "ui://clock+time/page.html", heard.append)
        clock.updated(PAGE)
        timeapp.updated(PAGE)
        assert heard == ["ui://clock+time/page.html"]
        assert len(ends) == 1


async def call_of_app(served: Serving, name: str, **told: str) -> dict[str, Any]:
    """The message that answers an app's call by a name that its server gave the tool."""
    caller = Caller(served.session, served.caller.url, told=told)
    return await caller.message(names.TOOLS_CALL, {"name": name, "arguments": {}}, **SHOWS_APPS)


def ran(*sources: AppSource) -> dict[str, list[str]]:
    """The tools that ran since the last time, by server."""
    found = {str(source.namespace): [name for name, _ in source.calls] for source in sources if source.calls}
    for source in sources:
        source.calls.clear()
    return found


SESSION = {headers.CALLER: "0123"}
OTHER_SESSION = {headers.CALLER: "4567"}


async def test_an_app_calls_the_tool_of_its_server_by_the_servers_own_name() -> None:
    clock, other = AppSource("clock"), ScriptedSource([tool("get-time2")], namespace="other")
    async with serving([clock, other]) as served:
        assert "result" in await call_of_app(served, "get-time")
        assert ran(clock) == {"clock": ["get-time"]}


async def test_a_listed_tool_of_that_name_is_meant_before_any_tool_of_an_app() -> None:
    clock, script = AppSource("clock"), ScriptedSource([tool("get-time")])
    async with serving([clock, script]) as served:
        await call_of_app(served, "get-time")
        assert (ran(clock), [name for name, _ in script.calls]) == ({}, ["get-time"])


@pytest.mark.parametrize(
    "closed", [tool("get-time"), page_tool("get-time", visibility=["model"]), app_only_tool("get_time")]
)
async def test_no_other_tool_runs_by_a_name_without_its_server(closed: Tool) -> None:
    """A model that misspells a name must run nothing: no tool without an app, and none that apps may not call."""
    clock = AppSource("clock", closed, page_tool())
    async with serving([clock]) as served:
        answer = await call_of_app(served, "get-time")
        assert answer["error"]["message"].startswith("Tool not found or disabled: get-time")
        assert ran(clock) == {}


async def test_a_client_that_shows_no_apps_runs_nothing_by_a_name_without_its_server() -> None:
    clock = AppSource("clock")
    async with serving([clock]) as served:
        for name in ("get-time", "show-time"):
            await served.caller.error(names.TOOLS_CALL, {"name": name, "arguments": {}})
        assert ran(clock) == {}


async def test_of_two_apps_with_one_name_the_one_that_the_session_opened_last_is_meant() -> None:
    timeapp, clock = AppSource("timeapp"), AppSource("clock")
    async with serving([timeapp, clock]) as served:
        mine = Caller(served.session, served.caller.url, told=SESSION)
        for uri, namespace in ((PAGE, "timeapp"), ("ui://clock+time/page.html", "clock"), (PAGE, "timeapp")):
            await mine.result(names.RESOURCES_READ, {"uri": uri}, **SHOWS_APPS)
            await call_of_app(served, "get-time", **SESSION)
            assert ran(timeapp, clock) == {namespace: ["get-time"]}
        await call_of_app(served, "clock__show-time", **SESSION)
        await call_of_app(served, "get-time", **SESSION)
        assert ran(timeapp, clock) == {"clock": ["show-time", "get-time"]}, (
            "a client may have the page already"
        )


@pytest.mark.parametrize("told", [{}, OTHER_SESSION], ids=["stateless", "another session"])
async def test_a_name_of_two_apps_is_refused_by_name_if_nobody_knows_which_is_open(
    told: dict[str, str],
) -> None:
    timeapp, clock = AppSource("timeapp"), AppSource("clock")
    async with serving([timeapp, clock]) as served:
        mine = Caller(served.session, served.caller.url, told=SESSION)
        await mine.result(names.RESOURCES_READ, {"uri": PAGE}, **SHOWS_APPS)
        error = (await call_of_app(served, "get-time", **told))["error"]
        assert error["message"].startswith("Apps of clock and timeapp have a tool get-time")
        assert error["data"]["details"]["nearest"] == ["clock__get-time", "timeapp__get-time"]
        assert ran(timeapp, clock) == {}


async def test_an_app_of_fastmcp_calls_its_tool_by_the_tools_identity() -> None:
    digits = "0123456789ab"
    one, two = (
        AppSource(name, app_only_tool("save", fastmcp={"tool_hash": digits if name == "one" else "f" * 12}))
        for name in ("one", "two")
    )
    async with serving([one, two]) as served:
        await call_of_app(served, f"__{digits}_save")
        assert ran(one, two) == {"one": ["save"]}
        unknown = await call_of_app(served, "__aaaaaaaaaaaa_save")
        assert "error" in unknown
        two.tools = (app_only_tool("save", fastmcp={"tool_hash": digits}),)
        served.toolset.touch()
        await served.toolset.wait_for_change(0.2)
        twice = await call_of_app(served, f"__{digits}_save")
        assert twice["error"]["data"]["details"]["nearest"] == ["one__save", "two__save"]
        assert ran(one, two) == {}


async def test_an_apps_own_data_comes_from_its_server() -> None:
    """Its address is in no list, or in both: the app knows it from its own code."""
    timeapp, clock = AppSource("timeapp"), AppSource("clock", listed=(PAGE, DATA))
    async with serving([timeapp, clock]) as served:
        told = Caller(served.session, served.caller.url, told=SESSION)

        async def data() -> str:
            result = await told.result(names.RESOURCES_READ, {"uri": DATA}, **SHOWS_APPS)
            assert result["contents"][0]["uri"] == DATA, "as the app wrote it"
            return str(result["contents"][0]["text"])

        for _ in range(2):
            await told.result(names.RESOURCES_READ, {"uri": "ui://clock+time/page.html"}, **SHOWS_APPS)
            assert await data() == "data of clock"
            await told.result(names.RESOURCES_READ, {"uri": PAGE}, **SHOWS_APPS)
            assert await data() == "data of timeapp"


async def test_data_of_two_apps_is_refused_by_name_if_nobody_knows_which_is_open() -> None:
    async with serving([AppSource("timeapp"), AppSource("clock")]) as served:
        answer = await served.caller.message(names.RESOURCES_READ, {"uri": DATA}, **SHOWS_APPS)
        assert answer["error"]["message"].startswith(f"Apps of timeapp and clock have addresses like {DATA}")
    async with serving([AppSource("clock")]) as served:
        assert await read(served, DATA) == "data of clock"
