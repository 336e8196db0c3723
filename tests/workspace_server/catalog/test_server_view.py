"""The view of one server: its own names outside, the offered ones inside."""

from __future__ import annotations

from support.servers.mcp_sources.app_source import PAGE, AppSource
from support.servers.mcp_sources.tool_source import ScriptedSource, offerings, tool
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.server_view import find_server, view_of_server
from workspace_server.catalog.view import Mode, View, build_view
from workspace_server.config.model import Configuration


async def whole_view() -> View:
    sources = [AppSource("timeapp"), AppSource("clock"), ScriptedSource([tool("nightly")])]
    sources[1].offered = offerings(prompts=["b", "A"], resources=[PAGE])
    return build_view(await Registry(sources).snapshot(), Configuration())


async def test_tools_have_their_offered_names_inside_and_the_servers_outside() -> None:
    """Settings, approvals and records know a tool by one name, whatever address a call came to."""
    view = view_of_server(await whole_view(), "clock")
    assert list(view.by_name) == ["clock__get-time", "clock__plain", "clock__show-time"]
    names = view.server_names
    assert names is not None
    listed = names.rename_definitions(view.listed(Mode.SHOW_ALL))
    assert [definition["name"] for definition in listed] == ["get-time", "plain", "show-time"]
    assert names.meant("plain") == ["clock__plain"]
    assert listed[2]["_meta"]["ui"]["resourceUri"] == PAGE
    assert view.tools[1].source.id == "stdio:clock"


async def test_prompts_and_addresses_are_the_servers_own_in_list_order() -> None:
    offered = view_of_server(await whole_view(), "clock").snapshot.offerings
    assert [prompt.name for prompt in offered.prompts] == ["A", "b"]
    assert [prompt.definition["name"] for prompt in offered.prompts] == ["A", "b"]
    assert [resource.name for resource in offered.resources] == [PAGE]
    assert {source.id for source in offered.sources} == {"stdio:clock"}


async def test_it_is_made_once_and_is_its_own_view_again() -> None:
    whole = await whole_view()
    view = view_of_server(whole, "clock")
    assert view_of_server(whole, "clock") is view
    assert view_of_server(view, "clock") is view
    assert view.for_models().server_names is view.server_names


async def test_there_is_nothing_in_the_view_of_no_server_and_none_is_kept() -> None:
    whole = await whole_view()
    for name in ("script", "builtin", "", "clock__"):
        view = view_of_server(whole, name)
        assert (view.tools, view.snapshot.sources, view.server_names is None) == ((), (), False)
        assert find_server(whole, name) is None
    assert dict(whole.server_views) == {}
