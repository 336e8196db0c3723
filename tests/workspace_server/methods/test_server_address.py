"""The address of a single server: that server alone, under its own names, with the rules of the workspace."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.protocol import apps_extension, headers, names
from support.clients.stateless_requests import Caller
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.app_source import DATA, PAGE, SHOWS_APPS, AppSource, app_only_tool, page_tool
from support.servers.mcp_sources.tool_source import ScriptedSource, handshake_result, offerings, tool
from workspace_server.config.model import Configuration, PolicyDeltas

LISTS = {
    names.TOOLS_LIST: "tools",
    names.RESOURCES_LIST: "resources",
    names.TEMPLATES_LIST: "resourceTemplates",
    names.PROMPTS_LIST: "prompts",
}


def at(served: Serving, server: str, **told: str) -> Caller:
    """A client at the address of a server."""
    return Caller(served.session, served.caller.url, told={headers.SERVER: server, **told})


def two_apps() -> tuple[AppSource, AppSource]:
    """Two servers with the same names of everything."""
    sources = AppSource("timeapp"), AppSource("clock")
    for source in sources:
        source.offered = offerings(prompts=["ask"], resources=[PAGE], templates=["ui://time/{zone}"])
        source.greeted = handshake_result(resources={}, extensions={apps_extension.EXTENSION: {}})
    return sources


@pytest.mark.parametrize("server", ["timeapp", "clock"])
async def test_all_lists_have_what_the_server_has_under_its_own_names(server: str) -> None:
    script = ScriptedSource([tool("nightly")])
    async with serving([*two_apps(), script]) as served:
        client = at(served, server)
        found = {member: await client.result(method, **SHOWS_APPS) for method, member in LISTS.items()}
        tools = {entry["name"]: entry.get("_meta") for entry in found["tools"]["tools"]}
        assert list(tools) == ["get-time", "plain", "show-time"]
        assert tools["show-time"] == page_tool().definition["_meta"], "the page's address is the server's own"
        assert [entry["uri"] for entry in found["resources"]["resources"]] == [PAGE]
        assert [entry["uriTemplate"] for entry in found["resourceTemplates"]["resourceTemplates"]] == [
            "ui://time/{zone}"
        ]
        assert [entry["name"] for entry in found["prompts"]["prompts"]] == ["ask"]


@pytest.mark.parametrize("server", ["timeapp", "clock"])
async def test_calls_pages_and_data_are_the_servers_without_any_doubt(server: str) -> None:
    """No session, nothing opened before: the address says all."""
    sources = two_apps()
    async with serving(sources) as served:
        client = at(served, server)
        for uri, word in ((PAGE, "page"), (DATA, "data")):
            result = await client.result(names.RESOURCES_READ, {"uri": uri}, **SHOWS_APPS)
            assert result["contents"][0]["text"] == f"{word} of {server}"
        for name in ("show-time", "get-time", "plain"):
            await client.result(names.TOOLS_CALL, {"name": name, "arguments": {}}, **SHOWS_APPS)
        ran = {str(source.namespace): [name for name, _ in source.calls] for source in sources}
        assert ran == {"timeapp": [], "clock": [], server: ["show-time", "get-time", "plain"]}


async def test_an_app_reaches_nothing_of_any_other_server() -> None:
    """Its client hands on whatever it asks for; only this address knows whose app it is."""
    evil, bank = AppSource("evil"), AppSource("bank", page_tool("pay"), app_only_tool("transfer"))
    bank.contents = {"ui://bank/secret": "secret"}
    script = ScriptedSource([tool("nightly")])
    wrapped = [("execute_tool", {"name": "bank__transfer", "arguments": {}})]
    async with serving([evil, bank, script]) as served:
        client = at(served, "evil")
        calls: list[tuple[str, dict[str, Any]]] = [
            (name, {}) for name in ("transfer", "bank__transfer", "bank__pay", "pay", "nightly")
        ]
        for name, arguments in calls + wrapped:
            answer = await client.message(
                names.TOOLS_CALL, {"name": name, "arguments": arguments}, **SHOWS_APPS
            )
            assert "error" in answer or answer["result"]["isError"], name
            assert "bank__" not in str(answer.get("error", {}).get("data", {})), "nothing is suggested"
        for uri in ("ui://bank/secret", "lm-tools://tool/bank__pay"):
            answer = await client.message(names.RESOURCES_READ, {"uri": uri}, **SHOWS_APPS)
            assert "error" in answer
        assert (bank.calls, bank.relayed, script.calls) == ([], [], [])


async def test_the_server_says_of_itself_what_it_said() -> None:
    async with serving(two_apps()) as served:
        result = (await at(served, "clock").message(names.DISCOVER))["result"]
        assert result["capabilities"] == {"resources": {}, "extensions": {apps_extension.EXTENSION: {}}}


async def test_a_name_of_no_server_is_refused_with_those_that_there_are() -> None:
    async with serving([*two_apps(), ScriptedSource([tool("nightly")])]) as served:
        for method in (*LISTS, names.DISCOVER):
            error = await at(served, "clok").error(method)
            assert error["message"].startswith("this workspace has no server clok")
            assert error["data"]["details"]["servers"] == ["timeapp", "clock"]
        for name in ("script", "nightly"):
            assert "error" in await at(served, name).message(names.TOOLS_LIST)


async def test_what_the_settings_of_the_workspace_hide_stays_hidden() -> None:
    configuration = Configuration(deltas=PolicyDeltas(disabled=("clock__plain",)))
    sources = two_apps()
    async with serving(sources, configuration=configuration) as served:
        client = at(served, "clock")
        result = await client.result(names.TOOLS_LIST)
        assert [entry["name"] for entry in result["tools"]] == ["show-time"]
        for name in ("plain", "clock__plain"):
            assert "error" in await client.message(names.TOOLS_CALL, {"name": name, "arguments": {}})
        assert sources[1].calls == []


async def test_a_workspace_of_one_server_without_namespace_has_its_address_too() -> None:
    only = AppSource("clock")
    only.namespace = None
    async with serving([only]) as served:
        client = at(served, "clock", **{headers.PASS_THROUGH: "1"})
        result = await client.result(names.TOOLS_LIST)
        assert [entry["name"] for entry in result["tools"]] == ["plain", "show-time"]
